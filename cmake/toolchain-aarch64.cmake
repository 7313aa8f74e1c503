# Builds for 64-bit Arm Linux on another machine, with Debian's cross compiler and its arm64 packages (cmake/setup.sh
# --emulators installs both), and runs what it builds under qemu.
#   -DFOVEA_CROSS_COMPILER=clang-14   instead of aarch64-linux-gnu-gcc
#   QEMU_CPU=cortex-a53               is qemu's own, in the environment of a test: the CPU that programs see
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FOVEA_CROSS_COMPILER)
set(triplet aarch64-linux-gnu)
set(CMAKE_LIBRARY_ARCHITECTURE ${triplet})

if("${FOVEA_CROSS_COMPILER}" MATCHES "^clang(.*)$")
    set(CMAKE_C_COMPILER clang${CMAKE_MATCH_1})
    set(CMAKE_CXX_COMPILER clang++${CMAKE_MATCH_1})
    set(CMAKE_C_COMPILER_TARGET ${triplet})
    set(CMAKE_CXX_COMPILER_TARGET ${triplet})
    set(runtime ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-arm64) # clang's OpenMP, see cmake/setup.sh
    foreach(kind EXE SHARED MODULE)
        set(CMAKE_${kind}_LINKER_FLAGS_INIT "-L${runtime} -Wl,-rpath,${runtime}")
    endforeach()
else()
    set(CMAKE_C_COMPILER ${triplet}-gcc)
    set(CMAKE_CXX_COMPILER ${triplet}-g++)
endif()
# By name, as clang would take the machine's own.
foreach(tool ar ranlib nm objcopy objdump strip)
    string(TOUPPER ${tool} variable)
    find_program(CMAKE_${variable} ${triplet}-${tool} REQUIRED)
endforeach()
find_program(CMAKE_LINKER ${triplet}-ld REQUIRED)

find_program(qemu qemu-aarch64 REQUIRED)
set(CMAKE_CROSSCOMPILING_EMULATOR ${qemu})
