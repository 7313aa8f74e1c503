"""Conan 2: conan create packaging/conan (from a checkout, whose sources it exports)."""

import pathlib
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir

TREE = pathlib.Path(__file__).resolve().parents[2]


class Fovea(ConanFile):
    name = "fovea"
    license = "Apache-2.0"
    homepage = "https://fovea.invalid/"
    description = "CPU kernels for multi-head attention"
    topics = ("attention", "transformers", "simd")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "openmp": [True, False]}
    default_options = {"shared": False, "openmp": True}
    languages = "C"

    def set_version(self):
        types = (TREE / "include/fovea/types.h").read_text()
        self.version = re.search(r'#define FOVEA_VERSION_STRING "(.*)"', types)[1]

    def export_sources(self):
        for name in ("bench/peak", "cli", "cmake", "include", "integrations/mpi", "kernels", "src"):
            copy(self, "*", TREE / name, pathlib.Path(self.export_sources_folder) / name)
        for name in ("CMakeLists.txt", "LICENSE"):
            copy(self, name, TREE, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.25]")

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FOVEA_OPENMP"] = bool(self.options.openmp)
        toolchain.cache_variables["FOVEA_MPI"] = "OFF"
        for part in ("BENCH", "EXAMPLES", "TESTS", "TOOLS", "TUNE"):
            toolchain.cache_variables[f"FOVEA_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, pathlib.Path(self.package_folder) / "licenses")
        for name in ("lib/cmake", "lib/pkgconfig", "share/doc"):  # Conan writes its own
            rmdir(self, pathlib.Path(self.package_folder) / name)

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Fovea")
        self.cpp_info.set_property("cmake_target_name", "Fovea::fovea")
        self.cpp_info.set_property("pkg_config_name", "fovea")
        self.cpp_info.libs = ["fovea"]
        self.cpp_info.resdirs = ["share"]
        if self.settings.os in ("Linux", "FreeBSD") and not self.options.shared:
            openmp = "omp" if "clang" in str(self.settings.compiler) else "gomp"
            self.cpp_info.system_libs = ["m", "dl", openmp if self.options.openmp else "pthread"]
