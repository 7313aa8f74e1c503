# Stops the build where an include in src/ breaks the order of its folders: none includes a folder above it or on its level, and another
# folder only by its one header, <folder>/<folder>.h. Modules are folders of a folder: none includes a module above it.
#
# Included, sets tower_sources; as a script, cmake -DROOT=... -DSTAMP=... -P, checks, and writes the stamp.
cmake_minimum_required(VERSION 3.25)

# From the ground up; folders of one line stand side by side.
set(tower
    "core"
    "threads"
    "cpu"
    "dispatch"
    "tuning"
    "context"
    "arrays"
    "rope"
    "cache"
    "quantization"
    "attention encoder linear norm recurrence"
    "mha experts")

# From the ground up, after the headers of their folder.
set(rooms
    "attention/visible"
    "attention/sources"
    "attention/plan"
    "attention/flash"
    "attention/outputs"
    "attention/api")

# Known exceptions, "file header": printed at each check; one that is no longer there must be taken out of the list.
set(exceptions)

if(NOT CMAKE_SCRIPT_MODE_FILE)
    file(GLOB_RECURSE tower_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.[ch])
    return()
endif()

set(level 0)
foreach(storey IN LISTS tower)
    string(REPLACE " " ";" modules "${storey}")
    foreach(module IN LISTS modules)
        set(level_of_${module} ${level})
    endforeach()
    math(EXPR level "${level} + 1")
endforeach()
foreach(room IN LISTS rooms)
    set(level_of_${room} ${level})
    math(EXPR level "${level} + 1")
endforeach()

# Says what is wrong with an include of a module's header in a file of a folder, or "".
function(judge folder header result)
    string(REGEX MATCH "^[^/]+" module ${folder})
    string(REGEX MATCH "^[^/]+" other ${header})
    set(${result} "" PARENT_SCOPE)
    if(other STREQUAL module)
        get_filename_component(room ${header} DIRECTORY)
        if(level_of_${room} GREATER level_of_${folder})
            set(${result} "${room} is above ${folder}" PARENT_SCOPE)
        endif()
    elseif(level_of_${other} GREATER level_of_${module})
        set(${result} "${other} is above ${module}" PARENT_SCOPE)
    elseif(level_of_${other} EQUAL level_of_${module})
        set(${result} "${other} is beside ${module}" PARENT_SCOPE)
    elseif(NOT header STREQUAL "${other}/${other}.h")
        set(${result} "others know ${other} only by ${other}/${other}.h" PARENT_SCOPE)
    endif()
endfunction()

set(wrong "")
set(unused ${exceptions})
file(GLOB_RECURSE files RELATIVE ${ROOT}/src ${ROOT}/src/*.[ch])
foreach(file IN LISTS files)
    get_filename_component(folder ${file} DIRECTORY)
    if(NOT DEFINED level_of_${folder})
        string(APPEND wrong "\n  src/${folder} has no place in the tower of cmake/check_tower.cmake")
        continue()
    endif()
    file(STRINGS ${ROOT}/src/${file} includes REGEX "^ *# *include +\"[a-z0-9_]+/")
    foreach(include IN LISTS includes)
        string(REGEX REPLACE "^ *# *include +\"([^\"]+)\".*" "\\1" header "${include}")
        string(REGEX MATCH "^[^/]+" other ${header})
        if(NOT IS_DIRECTORY ${ROOT}/src/${other})
            continue()
        endif()
        judge(${folder} ${header} sentence)
        if(NOT sentence)
            continue()
        endif()
        if("${file} ${header}" IN_LIST exceptions)
            list(REMOVE_ITEM unused "${file} ${header}")
            message(STATUS "known exception: src/${file} includes ${header}: ${sentence}")
        else()
            string(APPEND wrong "\n  src/${file} includes ${header}: ${sentence}")
        endif()
    endforeach()
endforeach()
foreach(exception IN LISTS unused)
    string(APPEND wrong "\n  cmake/check_tower.cmake: the exception \"${exception}\" is no longer one: take it out")
endforeach()
if(wrong)
    message(FATAL_ERROR "The folders of src/ are not in order:${wrong}\n")
endif()
file(WRITE ${STAMP} "")
