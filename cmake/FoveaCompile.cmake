# How everything in this repository is compiled.
#   FOVEA_X86, FOVEA_ARM64        true where the kernels of that architecture are built
#   FOVEA_BUILT_TIERS             the tiers that have kernels, lowest first: those of FOVEA_TIERS (CMakeLists.txt)
#   FOVEA_LEFT_OUT_TYPES          the element types that FOVEA_TYPES does not ask for
#   FOVEA_KERNEL_FLAGS            what intrinsics are compiled with, and FOVEA_KERNEL_FLAGS_<tier>
#   FOVEA_ARCHITECTURE            the definitions that tell the code: FV_HAVE_X86, also FV_HAVE_AVX512 where that tier
#                                 is built, or FV_HAVE_ARM64; FV_WITHOUT_BF16, _F16 and _I8 for types that are not
#   fovea_warnings(TARGET)        the warnings of all code: tests, benchmarks and examples too
#   fovea_program(NAME SOURCE...) an executable with these
#   fovea_hardened()              what this folder and those below it make are programs and readers of files: with checks of the stack and
#                                 of buffers, tables that cannot be written, and at random addresses, where compiler and linker can
#   fovea_check_assembler(VARIABLE FILE...)   can the compiler assemble these? (Language ASM)
#   fovea_object_library(TARGET)  an OBJECT library that goes into libfovea; add its sources and flags afterwards
include(CheckCSourceCompiles)
include(CheckCSourceRuns)

if(CMAKE_SIZEOF_VOID_P LESS 8)
    message(FATAL_ERROR "Fovea has no 32-bit builds, and the compiler makes 32-bit programs (${CMAKE_C_COMPILER} "
                        "${CMAKE_C_FLAGS}): build for x86-64, 64-bit Arm or, portable, another 64-bit CPU")
endif()

# kernels/strict.h refuses flags that change arithmetic, and compilers whose default does. Clang has no macros for some.
function(fovea_refuse_flags)
    string(TOUPPER "${CMAKE_BUILD_TYPE}" config)
    get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS) # those of a project around this one
    string(JOIN " " flags ${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${config}} ${options})
    separate_arguments(words UNIX_COMMAND "${flags}")
    list(FILTER words INCLUDE REGEX "^-[fOm]")
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    try_compile(strict SOURCE_FROM_FILE strict.c ${PROJECT_SOURCE_DIR}/kernels/strict.h NO_CACHE OUTPUT_VARIABLE said
                COMPILE_DEFINITIONS ${words})
    set(parts "-f(unsafe-math-optimizations|associative-math|reciprocal-math|no-signed-zeros)")
    if("${said}" MATCHES "Fovea cannot be built" OR "${words}" MATCHES "(^|;)${parts}(;|$)")
        message(FATAL_ERROR "Fovea cannot be built with -ffast-math, -Ofast or a part of them: NaN would become "
                            "numbers, and bits would depend on the compiler. Flags are: ${flags}. Take them out of CFLAGS and "
                            "CMAKE_C_FLAGS, or give them to targets of your own alone; icx needs -fp-model=precise")
    endif()
endfunction()
fovea_refuse_flags()

# On Windows gcc keeps the stack aligned to 16 bytes only, and still stores vectors of 32 and 64 bytes there by aligned moves (its bug
# 54412): the assembler makes them unaligned ones.
if(MINGW AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wa,-muse-unaligned-vector-move)
endif()

# Asks the compiler, not the machine: a cross compiler or -m32 may aim elsewhere.
function(fovea_check_target macro variable)
    check_c_source_compiles("
        #ifndef ${macro}
        #error
        #endif
        int main(void) { return 0; }" ${variable})
endfunction()

# fovea_host_has(WORDS VARIABLE): true where the CPU that builds has all of these, by __builtin_cpu_supports().
function(fovea_host_has words variable)
    set(name FOVEA_HOST_HAS_${words})
    string(MAKE_C_IDENTIFIER "${name}" name)
    if(CMAKE_CROSSCOMPILING)
        set(${name} FALSE)
    elseif(NOT DEFINED ${name})
        string(REPLACE " " "\") && __builtin_cpu_supports(\"" supports "${words}")
        check_c_source_runs("int main(void) { return !(__builtin_cpu_supports(\"${supports}\")); }" ${name})
    endif()
    set(${variable} "${${name}}" PARENT_SCOPE)
endfunction()

# Does FOVEA_TIERS ask for this tier? words: what __builtin_cpu_supports() calls its features.
function(fovea_tier_wanted tier words variable)
    set(wanted FALSE)
    if(FOVEA_TIERS STREQUAL all OR tier IN_LIST FOVEA_TIERS)
        set(wanted TRUE)
    elseif(FOVEA_TIERS STREQUAL host)
        fovea_host_has("${words}" wanted)
    endif()
    set(${variable} ${wanted} PARENT_SCOPE)
endfunction()

fovea_check_target(__x86_64__ FOVEA_TARGET_IS_X86_64)
fovea_check_target(__aarch64__ FOVEA_TARGET_IS_ARM64)
set(FOVEA_X86 FALSE)
set(FOVEA_ARM64 FALSE)
set(FOVEA_BUILT_TIERS scalar)
set(FOVEA_ARCHITECTURE)
if(FOVEA_TARGET_IS_X86_64 AND NOT FOVEA_PORTABLE)
    # A CPU with a tier has all below it; without any, what is built is portable.
    fovea_tier_wanted(avx2 "avx2 fma" wanted)
    if(wanted)
        set(FOVEA_X86 TRUE)
        list(APPEND FOVEA_BUILT_TIERS avx2)
        list(APPEND FOVEA_ARCHITECTURE FV_HAVE_X86)
        fovea_tier_wanted(avx512 "avx512f avx512bw avx512dq avx512vl" wanted)
        if(wanted)
            list(APPEND FOVEA_BUILT_TIERS avx512)
            list(APPEND FOVEA_ARCHITECTURE FV_HAVE_AVX512)
        endif()
    endif()
elseif(FOVEA_TARGET_IS_ARM64 AND NOT FOVEA_PORTABLE)
    set(FOVEA_ARM64 TRUE)
    list(APPEND FOVEA_BUILT_TIERS neon)
    set(FOVEA_ARCHITECTURE FV_HAVE_ARM64)
endif()

set(FOVEA_LEFT_OUT_TYPES bf16 f16 i8)
if(FOVEA_TYPES STREQUAL all)
    set(FOVEA_LEFT_OUT_TYPES)
endif()
foreach(type IN LISTS FOVEA_TYPES)
    if(NOT type MATCHES "^(all|f32|bf16|f16|i8)$")
        message(FATAL_ERROR "FOVEA_TYPES: ${type} is neither all nor one of f32, bf16, f16 and i8")
    endif()
    list(REMOVE_ITEM FOVEA_LEFT_OUT_TYPES ${type})
endforeach()
string(TOUPPER "${FOVEA_LEFT_OUT_TYPES}" types)
list(TRANSFORM types PREPEND FV_WITHOUT_)
list(APPEND FOVEA_ARCHITECTURE ${types})

if(FOVEA_SOFTWARE_FMA) # core/fma.c
    list(APPEND FOVEA_ARCHITECTURE fma=fv_fma fmaf=fv_fmaf)
endif()

# -O3 for the loops over tiles to unroll until the accumulators live in registers. The next two change no value: they let
# fmaf() be an instruction and comparisons be selections. Then for gcc: kernels end with vzeroupper below -O2 too, and
# loops and paths are not copied for conditions that do not change, nor functions aligned: text.
set(FOVEA_KERNEL_FLAGS $<$<NOT:$<CONFIG:Debug>>:-O3> -fno-math-errno -fno-trapping-math)
foreach(flag IN ITEMS -fexpensive-optimizations -fno-unswitch-loops -fno-split-paths -fno-align-functions)
    list(APPEND FOVEA_KERNEL_FLAGS $<$<C_COMPILER_ID:GNU>:${flag}>)
endforeach()
set(FOVEA_KERNEL_FLAGS_scalar)
if(FOVEA_SCALAR_FMA AND FOVEA_X86)
    fovea_host_has("fma" has_fma)
    if(has_fma)
        # Only xmm registers, as without -mfma: functions of scalars need not end with vzeroupper then.
        set(FOVEA_KERNEL_FLAGS_scalar -mfma -mprefer-vector-width=128)
    endif()
endif()
set(FOVEA_KERNEL_FLAGS_avx2 -mavx2 -mfma)
set(FOVEA_KERNEL_FLAGS_avx512 ${FOVEA_KERNEL_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
                              -mprefer-vector-width=512)
# The baseline of 64-bit Arm. gcc would move loads of a tile's step before its multiply-adds, and spill for want of registers.
set(FOVEA_KERNEL_FLAGS_neon $<$<C_COMPILER_ID:GNU>:-fno-schedule-insns>)

function(fovea_check_assembler variable)
    if(NOT DEFINED ${variable})
        set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
        list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
        try_compile(${variable} SOURCES ${files} CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/kernels)
        if(NOT ${variable})
            message(STATUS "${ARGN}: the compiler cannot assemble it, C takes its place")
        endif()
    endif()
endfunction()

function(fovea_warnings target)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow $<$<BOOL:${FOVEA_WERROR}>:-Werror>)
endfunction()

# Not for the library, which has the flags of who builds it: in kernels they cost time, and text. Sanitizers, which come with Debug,
# bring checks of buffers of their own.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
check_linker_flag(C LINKER:-z,relro,-z,now FOVEA_HAS_RELRO)
foreach(flag stack-protector-strong stack-clash-protection cf-protection)
    check_c_compiler_flag(-f${flag} FOVEA_HAS_${flag})
endforeach()
macro(fovea_hardened)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON)
    if(FOVEA_HAS_RELRO) # ELF: other systems have defaults of their own
        add_link_options(LINKER:-z,relro,-z,now)
        add_compile_options("$<$<NOT:$<CONFIG:Debug>>:SHELL:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>")
        foreach(flag stack-protector-strong stack-clash-protection cf-protection)
            if(FOVEA_HAS_${flag})
                add_compile_options(-f${flag})
            endif()
        endforeach()
    endif()
endmacro()

function(fovea_program name)
    add_executable(${name} ${ARGN})
    fovea_warnings(${name})
endfunction()

function(fovea_object_library target)
    add_library(${target} OBJECT)
    fovea_warnings(${target})
    # -ffp-contract=off: an fma is where one is written and nowhere else, or bits would depend on the compiler.
    # -UNDEBUG: after what a build type defines.
    target_compile_options(${target} PRIVATE
                           "$<$<COMPILE_LANGUAGE:C>:SHELL:-include \"${PROJECT_SOURCE_DIR}/kernels/strict.h\">"
                           -Wconversion $<$<BOOL:${MINGW}>:-Wno-float-conversion> # of its isfinite()
                           $<$<C_COMPILER_ID:Clang,AppleClang>:-Wno-enum-float-conversion> # of named constants, which are small
                           -ffp-contract=off $<$<BOOL:${FOVEA_ASSERTS}>:-UNDEBUG>)
    target_compile_definitions(${target} PRIVATE ${FOVEA_ARCHITECTURE} $<$<NOT:$<BOOL:${FOVEA_ASSERTS}>>:NDEBUG>)
    target_include_directories(${target} PRIVATE ${FOVEA_INCLUDE} ${PROJECT_SOURCE_DIR}/src
                                                 ${PROJECT_SOURCE_DIR}/kernels ${PROJECT_BINARY_DIR}/kernels)
    # Position-independent also in the static library, which others link into shared ones.
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
    set_property(GLOBAL APPEND PROPERTY FOVEA_OBJECT_LIBRARIES ${target})
endfunction()
