# Registering tests.
#   fovea_add_test(NAME COMMAND...)        one ctest entry for each tier of FOVEA_TEST_TIERS, NAME.TIER with label TIER,
#                                          run under FOVEA_ISA=TIER; skipped where the CPU has no such tier
#   fovea_add_test_once(NAME COMMAND...)   one entry, for what does not depend on the tier
#   fovea_test_usage(TARGET [NAME])        one entry for its command line (tests/usage.sh); NAME: what it calls itself
#   fovea_test_circles(NAME TARGET... [HEADERS FOLDER])   one entry: no files of these targets need each other in a
#                                          circle; HEADERS: nor do files of FOLDER include each other's, x.h being of x.c
#   expect(STATUS OUTPUT COMPLAINT PROGRAM [ARGUMENT...])   sets command to one that runs PROGRAM by expect.cmake
#   fovea_described_machines(TARGET)       lets it run on the machines of tests/machines (tests/support/described.h)
#   fovea_wrap_allocation(TARGET)          puts the functions of tests/support/failing.h in place of malloc and its like
# COMMAND may begin with a target. A test that exits with 77 was skipped. Of another architecture, what is built here
# runs under FOVEA_LAUNCHER; programs that come after the first word of a COMMAND need it written out.
set(FOVEA_LAUNCHER)
if(CMAKE_CROSSCOMPILING)
    set(FOVEA_LAUNCHER ${CMAKE_CROSSCOMPILING_EMULATOR})
endif()
# Where FOVEA_TEST_TIERS is "best", each test runs once, without FOVEA_ISA, as NAME; those that compare a tier with
# recorded results (FOVEA_GOLDEN_TESTS) run on each tier all the same.
set(FOVEA_TEST_TIERS "${FOVEA_BUILT_TIERS}" CACHE STRING
    "Tiers under which every test is run; best: once, on the best one")
set(FOVEA_GOLDEN_TESTS context golden promise)
# Label "kernels": tests in which kernels differ by CPU and compiler. Label "threads": what starts threads, or meets
# them.
set(FOVEA_KERNEL_TESTS
    activation arithmetic arithmetic_linear arrays attention_sources cache_int4 cache_int8 check check.flush-to-zero check.tiles
    exp fp_modes product_work golden half_attention half_linear half_linear_pairs half_mha linear linear_gated
    experts linear_int8 encoder linear_parts log mha_cache norm pairs_guard promise recurrence reference rope split_kv tanh types)
set(FOVEA_THREAD_TESTS
    arrays cache_threads context experts linear masks merge mha_reuse recurrence shared_pages state threads_backend threads_callers
    threads_cancel threads_fork threads_parallel_for threads_pool example-decode example-planned generate-decoder embed-encoder)

# Label "hosts": patterns of tests that depend on their surroundings, which cmake/test.sh hosts changes: threads, the
# tuner, dispatch, programs, the package. Others only compute.
set(FOVEA_HOST_TESTS
    "threads_.*" cache_threads cpu_topology "nodes.*" fp_modes fp_traps stack_size "bench[.](nodes|options|structs)"
    tuning tuning_file tuning_linear "tune[.][a-z-]+"
    "(machines|tune[.][a-z]+)[.]amd-25-17" context arithmetic_selection instructions kernel_registry made-up product_work
    "usage[.].*" cli_words
    "example-(quickstart|decode|minilm)" "embed-fetch-.*" "inspect-(options|attention|output)" generate-sample
    quantize-gguf models-whole-file "package[.]static[.](install|symbols|find_package|mpi)" ci-tiers circles docs-links)
list(JOIN FOVEA_HOST_TESTS "|" pattern_hosts)
list(JOIN FOVEA_KERNEL_TESTS "|" pattern_kernels)
list(JOIN FOVEA_THREAD_TESTS "|" pattern_threads)

# The targets tests-kernels, tests-threads and so on build the programs of that label.
foreach(label kernels threads hosts emulated)
    add_custom_target(tests-${label})
endforeach()

# fovea_label(TEST LABEL COMMAND...): COMMAND is the test's, which may name programs as $<TARGET_FILE:...>.
function(fovea_label name label)
    set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
    string(REGEX MATCHALL "TARGET_FILE:[^>]+" programs "${ARGN}") # targets that may come later
    list(TRANSFORM programs REPLACE "TARGET_FILE:" "")
    if("${ARGV2}" MATCHES "^(test-|fovea-|with-tier$)")
        list(APPEND programs ${ARGV2})
    endif()
    if(programs)
        add_dependencies(tests-${label} ${programs})
    endif()
endfunction()

function(fovea_add_test_once name)
    add_test(NAME ${name} COMMAND ${ARGN})
    # Tests run side by side: one's idle OpenMP threads must not spin on another's CPU (a third of the time, measured).
    # And no tuning file of this machine, nor an installed one, may choose for them.
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1800
                                            ENVIRONMENT "OMP_WAIT_POLICY=passive;FOVEA_TUNING_FILE=;FOVEA_KNOWN_CPUS=")
    string(REGEX REPLACE "\\.(scalar|avx2|avx512|neon|bound)$" "" stem ${name})
    foreach(label kernels threads hosts)
        if(stem MATCHES "^(${pattern_${label}})$")
            fovea_label(${name} ${label} ${ARGN})
        endif()
    endforeach()
endfunction()

function(fovea_add_test name command)
    if(TARGET ${command})
        set(command ${FOVEA_LAUNCHER} $<TARGET_FILE:${command}>)
    endif()
    set(tiers ${FOVEA_TEST_TIERS})
    if(tiers STREQUAL "best" AND name IN_LIST FOVEA_GOLDEN_TESTS)
        set(tiers ${FOVEA_BUILT_TIERS})
    endif()
    foreach(tier IN LISTS tiers)
        if(tier STREQUAL "best")
            fovea_add_test_once(${name} ${command} ${ARGN})
        elseif(CMAKE_CROSSCOMPILING AND tier STREQUAL "scalar" AND NOT name IN_LIST FOVEA_KERNEL_TESTS)
            continue() # the same code as everywhere, with which tests of the other tier compare
        else()
            fovea_add_test_once(${name}.${tier} with-tier ${tier} ${command} ${ARGN})
            set_property(TEST ${name}.${tier} APPEND PROPERTY LABELS ${tier})
        endif()
    endforeach()
endfunction()

function(fovea_test_usage target)
    set(name ${target} ${ARGN})
    list(GET name -1 name)
    fovea_add_test_once(usage.${target} ${CMAKE_COMMAND} -E env SCRATCH=${CMAKE_CURRENT_BINARY_DIR}/usage-${target}
                        ${PROJECT_SOURCE_DIR}/tests/usage.sh ${name} $<TARGET_FILE:${target}>)
endfunction()

find_program(FOVEA_TSORT tsort)
mark_as_advanced(FOVEA_TSORT)
function(fovea_test_circles name)
    if(CMAKE_SYSTEM_NAME STREQUAL Linux AND CMAKE_NM AND FOVEA_TSORT)
        cmake_parse_arguments(PARSE_ARGV 1 circles "" HEADERS "")
        list(TRANSFORM circles_UNPARSED_ARGUMENTS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
        list(TRANSFORM circles_HEADERS PREPEND "-h;")
        fovea_add_test_once(${name} ${PROJECT_SOURCE_DIR}/cmake/check_circles.sh ${CMAKE_NM} ${circles_HEADERS}
                            ${objects} COMMAND_EXPAND_LISTS)
        if(name MATCHES "^(.+)[.]circles$") # of LABEL.circles
            set_tests_properties(${name} PROPERTIES LABELS ${CMAKE_MATCH_1})
        endif()
    endif()
endfunction()

function(expect status output complaint)
    set(command ${CMAKE_COMMAND} -DSTATUS=${status} -DEXPECT=${output} -DCOMPLAINT=${complaint}
                -P ${PROJECT_SOURCE_DIR}/cmake/expect.cmake -- ${FOVEA_LAUNCHER} ${ARGN} PARENT_SCOPE)
endfunction()

# For programs that include failing.h.
function(fovea_wrap_allocation target)
    target_link_options(${target} PRIVATE
        LINKER:--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=posix_memalign,--wrap=free)
endfunction()

# For programs that run on described machines (tests/support/described.h). FOVEA_MACHINES: the descriptions of this
# architecture; FOVEA_MACHINE: one whose kernels this build has.
set(FOVEA_MACHINE portable)
foreach(tier_machine avx2:amd-25-1 avx512:amd-25-17 neon:arm-cortex-a76)
    string(REGEX MATCH "^[^:]+" tier ${tier_machine})
    if(tier IN_LIST FOVEA_BUILT_TIERS)
        string(REGEX REPLACE "^[^:]+:" "" FOVEA_MACHINE ${tier_machine})
    endif()
endforeach()
set(FOVEA_MACHINE ${PROJECT_SOURCE_DIR}/tests/machines/${FOVEA_MACHINE}.txt)
file(STRINGS ${FOVEA_MACHINE} architecture REGEX "^architecture ")
file(GLOB machines ${PROJECT_SOURCE_DIR}/tests/machines/*.txt)
set(FOVEA_MACHINES)
foreach(machine IN LISTS machines)
    file(STRINGS ${machine} found REGEX "^architecture ")
    if(found STREQUAL architecture)
        list(APPEND FOVEA_MACHINES ${machine})
    endif()
endforeach()

function(fovea_described_machines target)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/described.c)
    target_link_options(${target} PRIVATE
                        LINKER:--wrap=fv_cpu_detect,--wrap=fv_threads_of_openmp,--wrap=fv_node_place)
endfunction()

add_executable(with-tier ${PROJECT_SOURCE_DIR}/tests/with_tier.c)
fovea_warnings(with-tier)
target_link_libraries(with-tier PRIVATE fovea)
set_target_properties(with-tier PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
