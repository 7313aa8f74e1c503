"""The first program of the documentation, with the package: it must print the documentation's digits."""

import io
import os

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout

DIGITS = "last token of the last head: 47.8783913 ... 54.8783875\n"


class Quickstart(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            said = io.StringIO()
            self.run(f'"{os.path.join(self.cpp.build.bindir, "quickstart")}"', said, env="conanrun")
            if said.getvalue() != DIGITS:
                raise ConanException(f"not the digits of the documentation: {said.getvalue()}")
