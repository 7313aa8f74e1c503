# The two libraries made of the objects of kernels/ and src/.
include(CheckLinkerFlag)
get_property(object_libraries GLOBAL PROPERTY FOVEA_OBJECT_LIBRARIES)
set(objects)
foreach(library IN LISTS object_libraries)
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
endforeach()

set(run_time)
if(UNIX)
    set(run_time m ${CMAKE_DL_LIBS})
endif()
if(FOVEA_OPENMP)
    # Fovea::openmp is made by the installed FoveaConfig.cmake.
    list(APPEND run_time $<BUILD_INTERFACE:OpenMP::OpenMP_C> $<INSTALL_INTERFACE:Fovea::openmp>)
else()
    find_package(Threads REQUIRED) # pthread where the C library has it apart
    list(APPEND run_time ${CMAKE_THREAD_LIBS_INIT})
endif()

# The library that users link.
add_library(fovea ${objects})
add_library(Fovea::fovea ALIAS fovea)
set_target_properties(fovea PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION ${FOVEA_SOVERSION})
file(GLOB public_headers CONFIGURE_DEPENDS ${FOVEA_INCLUDE}/fovea/*.h ${FOVEA_INCLUDE}/fovea/*.inc)
target_sources(fovea PUBLIC FILE_SET HEADERS BASE_DIRS ${FOVEA_INCLUDE}
                                             FILES ${public_headers})
target_link_libraries(fovea PRIVATE ${run_time})
# Threads go on after dlclose(): OpenMP's in the run-time that would be unloaded with the library, the default context's in
# the library itself. It stays.
if(BUILD_SHARED_LIBS)
    check_linker_flag(C LINKER:-z,nodelete FOVEA_LINKER_NODELETE)
    if(FOVEA_LINKER_NODELETE)
        target_link_options(fovea PRIVATE LINKER:-z,nodelete)
    endif()
endif()

# The library that tests, benchmarks and the tuner link, with functions that only they need.
add_library(fovea_internal STATIC EXCLUDE_FROM_ALL ${objects} ${PROJECT_SOURCE_DIR}/src/attention/plan/effect.c
                                                  ${PROJECT_SOURCE_DIR}/src/linear/effect.c)
fovea_warnings(fovea_internal)
set_target_properties(fovea_internal PROPERTIES LINKER_LANGUAGE C)
target_include_directories(fovea_internal PUBLIC ${FOVEA_INCLUDE} ${PROJECT_SOURCE_DIR}/src
                                                 ${PROJECT_SOURCE_DIR}/kernels ${PROJECT_BINARY_DIR}/kernels)
target_compile_definitions(fovea_internal PUBLIC ${FOVEA_ARCHITECTURE})
target_link_libraries(fovea_internal PRIVATE ${run_time})
if(PROJECT_IS_TOP_LEVEL) # for python/CMakeLists.txt
    export(TARGETS fovea_internal FILE ${PROJECT_BINARY_DIR}/fovea_internal.cmake)
endif()

# A shared library hides what is not fovea_* by itself (C_VISIBILITY_PRESET). An archive would not: where the binary
# tools can, it is made of one object, linked from all, in which hidden symbols have become local. Not with link-time
# optimization, whose objects hold no code yet; not on macOS and Windows, whose tools differ: there fv_ keeps names apart.
if(NOT BUILD_SHARED_LIBS AND CMAKE_OBJCOPY AND NOT APPLE AND NOT WIN32 AND NOT CMAKE_INTERPROCEDURAL_OPTIMIZATION)
    set(whole $<TARGET_FILE_DIR:fovea>/fovea-whole.o)
    add_custom_command(TARGET fovea POST_BUILD
        COMMAND ${CMAKE_LINKER} -r -o ${whole} ${objects}
        COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole}
        COMMAND ${CMAKE_COMMAND} -E rm -f $<TARGET_FILE:fovea>
        COMMAND ${CMAKE_AR} rcs $<TARGET_FILE:fovea> ${whole}
        COMMAND ${CMAKE_COMMAND} -E rm -f ${whole}
        COMMAND_EXPAND_LISTS VERBATIM)
endif()
