# Builds for Windows x86-64 on another machine, with Debian's MinGW-w64 (cmake/setup.sh --release installs it and wine), and
# runs what it builds under wine.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR AMD64)
set(triplet x86_64-w64-mingw32)
set(CMAKE_C_COMPILER ${triplet}-gcc-posix)
# gcc takes Microsoft's printf() for the one that is called: other builds check formats.
set(CMAKE_C_FLAGS_INIT -Wno-format)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static) # no library of MinGW-w64 to ship
set(CMAKE_RC_COMPILER ${triplet}-windres)
foreach(tool ar ranlib nm objcopy objdump strip)
    string(TOUPPER ${tool} variable)
    find_program(CMAKE_${variable} ${triplet}-${tool} REQUIRED)
endforeach()
find_program(CMAKE_LINKER ${triplet}-ld REQUIRED)
set(CMAKE_FIND_ROOT_PATH /usr/${triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

find_program(wine NAMES wine64 wine REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${wine})
