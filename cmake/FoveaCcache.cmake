# ccache, where it is installed: presets, package tests and the wheel compile many files alike.
find_program(FOVEA_CCACHE ccache)
mark_as_advanced(FOVEA_CCACHE)
if(FOVEA_CCACHE AND NOT DEFINED CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${FOVEA_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${FOVEA_CCACHE})
endif()
