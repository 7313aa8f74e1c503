# How everything in this repository is compiled.
#   FOVEA_X86                     true where the x86-64 kernels are built
#   fovea_warnings(TARGET)        the warnings of all code: tests, benchmarks and examples too
#   fovea_object_library(TARGET)  an OBJECT library that goes into libfovea; add its sources and flags afterwards
include(CheckCSourceCompiles)

# Asks the compiler, not the machine: a cross compiler or -m32 may aim elsewhere.
check_c_source_compiles("
    #ifndef __x86_64__
    #error
    #endif
    int main(void) { return 0; }" FOVEA_TARGET_IS_X86_64)
set(FOVEA_X86 FALSE)
if(FOVEA_TARGET_IS_X86_64 AND NOT FOVEA_PORTABLE)
    set(FOVEA_X86 TRUE)
endif()

function(fovea_warnings target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${FOVEA_WERROR}>:-Werror>)
endfunction()

function(fovea_object_library target)
    add_library(${target} OBJECT)
    fovea_warnings(${target})
    # -ffp-contract=off: an fma is where one is written and nowhere else, or bits would depend on the compiler.
    target_compile_options(${target} PRIVATE -Wconversion -ffp-contract=off)
    target_compile_definitions(${target} PRIVATE $<$<BOOL:${FOVEA_X86}>:FV_HAVE_X86>)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
                                                 ${PROJECT_SOURCE_DIR}/kernels)
    target_link_libraries(${target} PRIVATE SLEEF::SLEEF)
    # Position-independent also in the static library, which others link into shared ones.
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    set_property(GLOBAL APPEND PROPERTY FOVEA_OBJECT_LIBRARIES ${target})
endfunction()
