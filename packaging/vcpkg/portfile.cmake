# vcpkg install fovea --overlay-ports=packaging/vcpkg, from a checkout. In a registry SOURCE_PATH is what vcpkg_from_github() or
# vcpkg_extract_source_archive() of the release's tarball says.
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../..")
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES openmp FOVEA_OPENMP)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
                      OPTIONS ${features} -DFOVEA_MPI=OFF -DFOVEA_BUILD_BENCH=OFF -DFOVEA_BUILD_EXAMPLES=OFF
                              -DFOVEA_BUILD_TESTS=OFF -DFOVEA_BUILD_TOOLS=OFF -DFOVEA_BUILD_TUNE=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Fovea CONFIG_PATH lib/cmake/Fovea)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share" "${CURRENT_PACKAGES_DIR}/share/doc")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
