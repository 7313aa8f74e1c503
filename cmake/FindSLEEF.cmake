# Finds SLEEF, the vectorised math library: SLEEF_FOUND and the target SLEEF::SLEEF.
# By header and library, since Debian's package has no CMake files. Installed with FoveaConfig.cmake, which uses it.
#
# A static library is preferred, so that programs need no SLEEF where they run; for shared libraries only if its code may
# be part of one. -DSLEEF_LIBRARY=FILE decides otherwise.
find_path(SLEEF_INCLUDE_DIR sleef.h)
find_library(SLEEF_LIBRARY NAMES libsleef.a sleef)
mark_as_advanced(SLEEF_INCLUDE_DIR SLEEF_LIBRARY)

if(BUILD_SHARED_LIBS AND SLEEF_INCLUDE_DIR AND SLEEF_LIBRARY MATCHES "[.]a$")
    if(CMAKE_C_COMPILER_LOADED)
        include(CheckCSourceCompiles)
        include(CMakePushCheckState)
        cmake_push_check_state(RESET)
        set(CMAKE_REQUIRED_FLAGS -fPIC)
        set(CMAKE_REQUIRED_INCLUDES ${SLEEF_INCLUDE_DIR})
        set(CMAKE_REQUIRED_LIBRARIES ${SLEEF_LIBRARY})
        set(CMAKE_REQUIRED_LINK_OPTIONS -shared)
        check_c_source_compiles("#include <sleef.h>\ndouble f(double x) { return Sleef_cinz_logd1_u10purec(x); }"
                                SLEEF_MAY_BE_SHARED)
        cmake_pop_check_state()
    endif()
    if(NOT SLEEF_MAY_BE_SHARED)
        find_library(SLEEF_SHARED_LIBRARY sleef)
        mark_as_advanced(SLEEF_SHARED_LIBRARY)
        if(SLEEF_SHARED_LIBRARY)
            set(SLEEF_LIBRARY ${SLEEF_SHARED_LIBRARY})
        endif()
    endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SLEEF REQUIRED_VARS SLEEF_LIBRARY SLEEF_INCLUDE_DIR
                                  REASON_FAILURE_MESSAGE "on Debian and Ubuntu: apt-get install libsleef-dev")

if(SLEEF_FOUND AND NOT TARGET SLEEF::SLEEF)
    add_library(SLEEF::SLEEF UNKNOWN IMPORTED)
    set_target_properties(SLEEF::SLEEF PROPERTIES IMPORTED_LOCATION "${SLEEF_LIBRARY}"
                                                  INTERFACE_INCLUDE_DIRECTORIES "${SLEEF_INCLUDE_DIR}")
endif()
