# Registering tests.
#   fovea_add_test(NAME COMMAND...)        one ctest entry for each tier, NAME.TIER with label TIER, run under
#                                          FOVEA_ISA=TIER; skipped where the CPU has no such tier
#   fovea_add_test_once(NAME COMMAND...)   one entry, for what does not depend on the tier
#   fovea_test_usage(TARGET [NAME])        one entry for its command line (tests/usage.sh); NAME: what it calls itself
#   fovea_wrap_allocation(TARGET)          puts the functions of tests/support/failing.h in place of malloc and its like
# COMMAND may begin with a target. A test that exits with 77 was skipped. Of another architecture, what is built here runs
# under FOVEA_LAUNCHER; programs that come after the first word of a COMMAND need it written out.
set(FOVEA_LAUNCHER)
if(CMAKE_CROSSCOMPILING)
    set(FOVEA_LAUNCHER ${CMAKE_CROSSCOMPILING_EMULATOR})
endif()
# FOVEA_TEST_TIERS is the list of tiers; "best" among them runs without FOVEA_ISA.
# Tests in which kernels differ by CPU and compiler, and which have the label "kernels", too.
set(FOVEA_KERNEL_TESTS activation arithmetic arithmetic_linear arrays cache_int8 check check.flush-to-zero exp gated gemms golden half
                       half_linear half_linear_pairs half_mha linear log mha_cache modes norm promise reference rope split tanh types)
set(FOVEA_TEST_TIERS "${FOVEA_BUILT_TIERS}" CACHE STRING "Tiers under which every test is run")

function(fovea_add_test_once name)
    add_test(NAME ${name} COMMAND ${ARGN})
    # Tests run side by side: one's idle OpenMP threads must not spin on another's CPU (a third of the time, measured).
    # And no tuning file of this machine may choose for them.
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600
                                            ENVIRONMENT "OMP_WAIT_POLICY=passive;FOVEA_TUNING_FILE=")
endfunction()

function(fovea_add_test name command)
    if(TARGET ${command})
        set(command ${FOVEA_LAUNCHER} $<TARGET_FILE:${command}>)
    endif()
    foreach(tier IN LISTS FOVEA_TEST_TIERS)
        set(labels ${tier})
        if(name IN_LIST FOVEA_KERNEL_TESTS)
            list(APPEND labels kernels)
        elseif(CMAKE_CROSSCOMPILING AND tier STREQUAL "scalar")
            continue() # the same code as everywhere, with which tests of the other tier compare
        endif()
        if(tier STREQUAL "best")
            fovea_add_test_once(${name} ${command} ${ARGN})
        else()
            fovea_add_test_once(${name}.${tier} with-tier ${tier} ${command} ${ARGN})
            set_tests_properties(${name}.${tier} PROPERTIES LABELS "${labels}")
        endif()
    endforeach()
endfunction()

function(fovea_test_usage target)
    set(name ${target} ${ARGN})
    list(GET name -1 name)
    fovea_add_test_once(usage.${target} ${CMAKE_COMMAND} -E env SCRATCH=${CMAKE_CURRENT_BINARY_DIR}/usage-${target}
                        ${PROJECT_SOURCE_DIR}/tests/usage.sh ${name} $<TARGET_FILE:${target}>)
endfunction()

# For programs that include failing.h.
function(fovea_wrap_allocation target)
    target_link_options(${target} PRIVATE
        LINKER:--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=posix_memalign,--wrap=free)
endfunction()

add_executable(with-tier ${PROJECT_SOURCE_DIR}/tests/with_tier.c)
fovea_warnings(with-tier)
target_link_libraries(with-tier PRIVATE fovea)
set_target_properties(with-tier PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
