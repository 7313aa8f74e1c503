# Compiles for a folder that sysroot.sh made, FOVEA_SYSROOT, whose name is the target.
#   Linux     gcc, which compiles what users of the library measured. Only headers, start files and C library are those of the target
#   Windows   MinGW-w64's gcc
#   macOS     zig's clang
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FOVEA_SYSROOT)
cmake_path(GET FOVEA_SYSROOT FILENAME target)
set(Python_INCLUDE_DIR ${FOVEA_SYSROOT}/python)
set(ENV{PKG_CONFIG_LIBDIR} ${FOVEA_SYSROOT}/lib/pkgconfig)
if(target MATCHES "windows$")
    include(${CMAKE_CURRENT_LIST_DIR}/../cmake/toolchain-windows.cmake)
    set(Python_SABI_LIBRARIES ${FOVEA_SYSROOT}/lib/libpython3.a)
    return()
endif()
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR ${target})
if(target MATCHES "macos$")
    set(CMAKE_SYSTEM_NAME Darwin)
    set(CMAKE_C_COMPILER ${FOVEA_SYSROOT}/cc -target ${target}.11.0)
    set(CMAKE_ASM_COMPILER ${CMAKE_C_COMPILER})
    set(CMAKE_AR ${FOVEA_SYSROOT}/ar)
    set(CMAKE_RANLIB ${FOVEA_SYSROOT}/ranlib)
    find_program(CMAKE_INSTALL_NAME_TOOL llvm-install-name-tool-14 REQUIRED) # CMake asks for it where there is assembly
    set(CMAKE_MODULE_LINKER_FLAGS_INIT "-Wl,-undefined,dynamic_lookup") # Python's functions
    return()
endif()
set(CMAKE_SYSTEM_NAME Linux)

# The compiler and tools of Debian are named by the GNU system of the same CPU.
set(triplet ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_C_COMPILER ${triplet}-gcc)
foreach(tool ar ranlib nm objcopy objdump strip)
    string(TOUPPER ${tool} variable)
    find_program(CMAKE_${variable} ${triplet}-${tool} REQUIRED)
endforeach()
find_program(CMAKE_LINKER ${triplet}-ld REQUIRED)

execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=include OUTPUT_VARIABLE own OUTPUT_STRIP_TRAILING_WHITESPACE)
set(CMAKE_C_FLAGS_INIT "-nostdinc -isystem ${own} -isystem ${FOVEA_SYSROOT}/include")
if(target MATCHES "gnu$")
    string(APPEND CMAKE_C_FLAGS_INIT " -D__GLIBC_MINOR__=28") # the headers serve all versions
endif()
if(target MATCHES "musl$")
    set(musl " -static-libgcc -Wl,--dynamic-linker=/lib/ld-musl-${CMAKE_SYSTEM_PROCESSOR}.so.1")
endif()
if(target STREQUAL "aarch64-linux-musl")
    string(APPEND CMAKE_C_FLAGS_INIT " -mno-outline-atomics") # of libgcc, which asks glibc
endif()
foreach(kind EXE SHARED MODULE)
    # -B: start files and libraries of the target before this machine's
    set(CMAKE_${kind}_LINKER_FLAGS_INIT "-B${FOVEA_SYSROOT}/lib -L${FOVEA_SYSROOT}/lib -Wl,--as-needed${musl}")
endforeach()

set(CMAKE_FIND_ROOT_PATH ${FOVEA_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
