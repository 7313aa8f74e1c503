# cmake -DROOT=... -DSCRATCH=... -P kernel_list.cmake: which body a new row of kernels/kernels.inc gets, and where the
# build stops: at a row without a body, and at a line of bodies.cmake without a row.

# Configures the kernels with more rows and lines; sets output, and failed.
function(configure name rows lines)
    set(folder ${SCRATCH}/${name})
    file(REMOVE_RECURSE ${folder})
    file(MAKE_DIRECTORY ${folder}/build)
    file(GLOB entries ${ROOT}/kernels/*)
    foreach(entry IN LISTS entries)
        get_filename_component(file ${entry} NAME)
        file(CREATE_LINK ${entry} ${folder}/${file} SYMBOLIC)
    endforeach()
    file(READ ${ROOT}/kernels/kernels.inc list)
    file(REMOVE ${folder}/kernels.inc ${folder}/CMakeLists.txt)
    file(WRITE ${folder}/kernels.inc "${rows}\n${list}")
    file(STRINGS ${ROOT}/kernels/features.inc features REGEX "^FV_FEATURE")
    list(TRANSFORM features REPLACE "^FV_FEATURE.([a-z0-9_]+).*" "set(\\1_flags \"\")")
    list(JOIN features "\n" features)
    file(WRITE ${folder}/CMakeLists.txt "cmake_minimum_required(VERSION 3.16)\nproject(kernels NONE)\n${features}\n"
         "include(${ROOT}/cmake/KernelList.cmake)\ninclude(bodies.cmake)\nlist(APPEND bodies ${lines})\n"
         "fovea_read_kernel_list()\n")
    execute_process(COMMAND ${CMAKE_COMMAND} -S ${folder} -B ${folder}/build RESULT_VARIABLE failed
                    OUTPUT_VARIABLE output ERROR_VARIABLE output)
    string(REGEX REPLACE "[ \n]+" " " output "${output}") # lines are folded
    set(output "${output}" PARENT_SCOPE)
    set(failed ${failed} PARENT_SCOPE)
endfunction()

function(gets name row file body)
    configure(${name} "${row}" "")
    if(failed)
        message(FATAL_ERROR "${name}: ${output}")
    endif()
    file(READ ${SCRATCH}/${name}/build/${file} text)
    if(NOT text MATCHES "#include \"${body}\"")
        message(FATAL_ERROR "${name}: ${row} does not get ${body}, but\n${text}")
    endif()
endfunction()

function(stops name row line)
    configure(${name} "${row}" "${line}")
    foreach(word IN LISTS ARGN)
        string(FIND "${output}" "${word}" found)
        if(NOT failed OR found LESS 0)
            message(FATAL_ERROR "${name}: not stopped with \"${word}\":\n${output}")
        endif()
    endforeach()
endfunction()

# The tile says nothing about the number of rows.
gets(many "FV_MULTIPLY(f32, f32, 8, 16, avx512, 0)" avx512/multiply_f32_f32_8x16_avx512.c avx512/multiply_f32.h)
gets(few "FV_MULTIPLY_FEW(f32, f32, 6, 16, avx2, 0)" avx2/multiply_few_f32_f32_6x16_avx2.c body/multiply_few_rows.h)
gets(feature "FV_MULTIPLY_FEW(i16, i8x4, 8, 64, avx2, FV_HAS_avx_vnni)" avx2/multiply_few_i16_i8x4_8x64_avx2.c
     body/multiply_i16_i8x4.h)
# A body of the other kind is none.
stops(no-few "FV_MULTIPLY_FEW(bf16x2, bf16x2, 8, 16, avx2, 0)" "" multiply_few_bf16x2_bf16x2_8x16_avx2 bodies.cmake)
stops(no-many "FV_MULTIPLY(f32, i8, 8, 16, avx2, 0)" "" multiply_f32_i8_8x16_avx2 bodies.cmake)
stops(no-row "" "\"multiply_few f64_f64 * simd body/exp_f32.h\"" "no row of kernels.inc" "multiply_few f64_f64")
