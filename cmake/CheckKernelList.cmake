# Stops the build where the list of kernels, the files and the lines of kernels/CMakeLists.txt do not agree.
#   fovea_check_kernel_list(FILE...)   the files of the build, as avx2/exp_f32_1x8_avx2.c
function(fovea_check_kernel_list)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS kernels.inc)

    file(STRINGS kernels.inc lines REGEX "^FV_KERNEL\\(")
    set(rows)
    foreach(line IN LISTS lines)
        if(NOT line MATCHES "^FV_KERNEL\\(([a-z0-9_]+), ([a-z0-9]+), ([0-9]+), ([0-9]+), ([a-z0-9]+)\\)$")
            message(FATAL_ERROR "kernels.inc: not a row: ${line}")
        endif()
        set(tier ${CMAKE_MATCH_5})
        list(APPEND tiers ${tier})
        list(APPEND rows ${tier}/${CMAKE_MATCH_1}_${CMAKE_MATCH_2}_${CMAKE_MATCH_3}x${CMAKE_MATCH_4}_${tier}.c)
    endforeach()

    list(REMOVE_DUPLICATES tiers)
    list(TRANSFORM tiers APPEND "/*.c" OUTPUT_VARIABLE patterns)
    file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${patterns})

    fovea_require_same("rows of kernels.inc" "${rows}" "lines of kernels/CMakeLists.txt" "${ARGN}")
    fovea_require_same("rows of kernels.inc" "${rows}" "files in kernels/" "${files}")
endfunction()

function(fovea_require_same left_name left right_name right)
    set(only_left ${left})
    set(only_right ${right})
    list(REMOVE_ITEM only_left ${right})
    list(REMOVE_ITEM only_right ${left})
    if(only_left OR only_right)
        string(REPLACE ";" " " only_left "${only_left}")
        string(REPLACE ";" " " only_right "${only_right}")
        message(FATAL_ERROR "The kernel list does not agree with itself.\n"
                            "Only among the ${left_name}: ${only_left}\nOnly among the ${right_name}: ${only_right}")
    endif()
endfunction()
