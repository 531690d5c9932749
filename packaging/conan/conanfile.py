# SPDX-License-Identifier: MIT
"""Conan's recipe of the libraries; `conan create . --version VERSION`. conandata.yml says where the
source is."""

import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, get, rm, rmdir


class Mallow(ConanFile):
    name = "mallow"
    description = "Memory allocator that is fast, small and checked: malloc and operator new"
    license = "MIT"
    topics = ("malloc", "allocator", "memory")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    # build: which of the three. There is no fPIC: the archive is for executables of either kind.
    options = {"shared": [True, False], "build": ["fast", "secure", "debug"]}
    default_options = {"shared": True, "build": "fast"}

    @property
    def library(self):
        build = str(self.options.build)
        return "mallow" if build == "fast" else f"mallow-{build}"

    def configure(self):
        # It is C; the C++ library of the program makes no difference.
        self.settings.rm_safe("compiler.cppstd")
        self.settings.rm_safe("compiler.libcxx")

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("Mallow is for Linux on x86-64 and aarch64")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["MALLOW_MODES"] = str(self.options.build)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="libraries")

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        folder = os.path.join(self.package_folder, "lib")
        rm(self, "*.a" if self.options.shared else "*.so", folder)
        # Conan writes these for the programs itself.
        rmdir(self, os.path.join(folder, "cmake"))
        rmdir(self, os.path.join(folder, "pkgconfig"))

    def package_info(self):
        self.cpp_info.libs = [self.library]
        self.cpp_info.bindirs = []
        self.cpp_info.set_property("cmake_file_name", "mallow")
        self.cpp_info.set_property("cmake_target_name", "mallow::mallow")
        self.cpp_info.set_property("pkg_config_name", self.library)
