# sources_hash.h: a hash of what kernels are, of what chooses and calls them, and of what rows of tuning files mean.
# Tuning files are for one (src/tuning/rows.c): what was measured of other kernels, or against other defaults, says nothing
# here.
#
# Included, sets hashed_sources; as a script, cmake -DROOT=... -DOUTPUT=... -P, writes the header.
cmake_minimum_required(VERSION 3.25)

set(hashed_patterns
    kernels/*.c
    kernels/*.h
    kernels/*.inc
    kernels/*.cmake
    kernels/CMakeLists.txt
    src/attention/*.[ch]
    src/attention/*.inc
    src/core/size.h
    src/cpu/cpu.h
    src/dispatch/*.[ch]
    src/linear/*.[ch]
    src/threads/*.[ch]
    src/tuning/*.[ch]
    src/tuning/*.inc)

if(NOT CMAKE_SCRIPT_MODE_FILE)
    list(TRANSFORM hashed_patterns PREPEND ${PROJECT_SOURCE_DIR}/)
    file(GLOB_RECURSE hashed_sources CONFIGURE_DEPENDS ${hashed_patterns})
    return()
endif()

list(TRANSFORM hashed_patterns PREPEND ${ROOT}/)
file(GLOB_RECURSE sources RELATIVE ${ROOT} ${hashed_patterns})
set(all "")
foreach(source IN LISTS sources)
    file(SHA256 ${ROOT}/${source} hash)
    string(APPEND all "${source} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUTPUT} "#define FV_SOURCES_HASH \"${hash}\"\n")
