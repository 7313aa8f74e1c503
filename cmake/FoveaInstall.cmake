# cmake --install: header and library, the CMake package (find_package(Fovea) gives Fovea::fovea), the pkg-config file, and
# rows for known CPUs (src/CMakeLists.txt), all of which may be moved. Components: Fovea_Runtime (the shared library),
# Fovea_Development (the rest).
#
# A static library drags its dependencies along, so both descriptions name them: m, and the OpenMP runtime of the
# compiler that built the archive, whatever compiler links it.
# Target installed builds all that is installed.
#   fovea_install_program(PROGRAM)        a program, with the man page and the completion that it prints itself
#   fovea_install_rpath(TARGET FOLDER)    what is installed there finds the shared library where it was put, or moved to
#                                         with it; CMAKE_INSTALL_RPATH and CMAKE_SKIP_INSTALL_RPATH say otherwise
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Fovea)
if(FOVEA_OPENMP)
    list(GET OpenMP_C_LIB_NAMES 0 openmp_name)
    list(GET OpenMP_C_LIBRARIES 0 openmp_library)
    cmake_path(GET openmp_library PARENT_PATH openmp_dir)
endif()

add_custom_target(installed DEPENDS fovea)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT Fovea_Development)
install(TARGETS fovea EXPORT FoveaTargets
        RUNTIME COMPONENT Fovea_Runtime
        LIBRARY COMPONENT Fovea_Runtime NAMELINK_COMPONENT Fovea_Development
        ARCHIVE COMPONENT Fovea_Development
        FILE_SET HEADERS COMPONENT Fovea_Development)
install(EXPORT FoveaTargets NAMESPACE Fovea:: DESTINATION ${package_dir} COMPONENT Fovea_Development)

set(compatibility SameMajorVersion)
if(PROJECT_VERSION_MAJOR EQUAL 0) # where a minor version may change the interface
    set(compatibility SameMinorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/FoveaConfigVersion.cmake COMPATIBILITY ${compatibility})
configure_package_config_file(cmake/FoveaConfig.cmake.in ${PROJECT_BINARY_DIR}/FoveaConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/FoveaConfig.cmake ${PROJECT_BINARY_DIR}/FoveaConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT Fovea_Development)

# Sets out to the linker's words for libraries given by path or name: -lx, with -L where it would not look by itself.
function(fovea_linker_words out)
    set(words)
    foreach(library IN LISTS ARGN)
        cmake_path(GET library PARENT_PATH folder)
        cmake_path(GET library STEM LAST_ONLY name)
        string(REGEX REPLACE "^lib" "" name ${name})
        if(folder AND NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
            list(APPEND words -L${folder})
        endif()
        list(APPEND words -l${name})
    endforeach()
    list(JOIN words " " words)
    set(${out} "${words}" PARENT_SCOPE)
endfunction()

if(NOT FOVEA_OPENMP AND CMAKE_THREAD_LIBS_INIT)
    set(threads pthread)
endif()
fovea_linker_words(pc_private ${OpenMP_C_LIBRARIES} ${threads} m ${CMAKE_DL_LIBS})
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${pc_dir} OUTPUT_VARIABLE pc_to_prefix)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE pc_libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}
           OUTPUT_VARIABLE pc_includedir)
configure_file(cmake/fovea.pc.in ${PROJECT_BINARY_DIR}/fovea.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/fovea.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT Fovea_Development)

# cpack, for packaging/tarball.sh.
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_FILE_NAME libfovea-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
include(CPack)

function(fovea_install_rpath target folder)
    cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${folder} OUTPUT_VARIABLE path)
    if(BUILD_SHARED_LIBS AND NOT DEFINED CMAKE_INSTALL_RPATH)
        set_target_properties(${target} PROPERTIES INSTALL_RPATH "$<IF:$<BOOL:${APPLE}>,@loader_path,$ORIGIN>/${path}")
    endif()
endfunction()

function(fovea_install_program program)
    fovea_install_rpath(${program} ${CMAKE_INSTALL_FULL_BINDIR})
    install(TARGETS ${program} RUNTIME COMPONENT Fovea_Runtime)
    add_dependencies(installed ${program})
    if(CMAKE_CROSSCOMPILING)
        return()
    endif()
    foreach(page man completion)
        add_custom_command(OUTPUT ${program}.${page} COMMAND ${program} --${page} > ${program}.${page}
                           DEPENDS ${program} VERBATIM)
    endforeach()
    add_custom_target(${program}-pages ALL DEPENDS ${program}.man ${program}.completion)
    add_dependencies(installed ${program}-pages)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${program}.man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
            RENAME ${program}.1 COMPONENT Fovea_Runtime)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${program}.completion RENAME ${program}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT Fovea_Runtime)
endfunction()
