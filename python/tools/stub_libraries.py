#!/usr/bin/env python3
"""Lets PyTorch's CUDA build import on a machine without CUDA, without 2 GB of NVIDIA's packages.

    python3 stub_libraries.py SITE_PACKAGES

PyTorch's wheels on PyPI are linked to CUDA. On a CPU only its small runtime library is ever called, which finds no device (install that
one: cuda-toolkit[cudart]), but the dynamic loader requires every library and every symbol. This script reads from torch/lib which libraries
are needed and missing, and writes stubs of them to SITE_PACKAGES/nvidia/cu13/lib (or cu12), where torch's RPATH looks: each exports the
symbols that torch binds, as one function that returns 100, cudaErrorNoDevice. Libraries that are there are left alone.

Needs readelf and cc. A test venv only: torch.cuda.is_available() is False in it, whatever the machine has.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

# Names of NVIDIA's libraries, and of their functions.
LIBRARY = re.compile(r"lib(cu(?!da\.)|nv|nccl)")
FUNCTION = re.compile(r"(cu|nv|nccl)")
NO_DEVICE = 100


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], check=True, capture_output=True, text=True).stdout


def needs_of(path):
    """Requirements of a shared object: (libraries, {library: {version}}, {(symbol, version)}), and the names that it defines."""
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path))
    versions, file = {}, None
    for line in readelf("--version-info", path).splitlines():
        if found := re.search(r"Version: 1  File: (\S+)", line):
            file = found[1]
        elif found := re.search(r"Name: (\S+)  Flags: ", line):
            versions.setdefault(file, set()).add(found[1])
    symbols, defined = set(), set()
    for line in readelf("--dyn-syms", path).splitlines():
        if found := re.search(r" (UND|\d+) ([^\s@]+)(?:@+(\S+))?(?: \(\d+\))?$", line):
            symbols.add(found.group(2, 3)) if found[1] == "UND" else defined.add(found[2])
    return libraries, versions, symbols, defined


def compile_stub(folder, library, symbols, versions):
    """symbols: (name, version or None)."""
    code = [f"int fovea_stub_{re.sub('[^a-z]', '_', library.lower())}(void) {{ return {NO_DEVICE}; }}"]
    target = code[0].split("(")[0].removeprefix("int ")
    for i, (name, version) in enumerate(sorted(symbols, key=str)):
        if version:
            code.append(f'int v{i}(void) __attribute__((alias("{target}")));')
            code.append(f'__asm__(".symver v{i}, {name}@@{version}");')
        else:
            code.append(f'int {name}(void) __attribute__((alias("{target}")));')
    script = "".join(f"{version} {{}};\n" for version in sorted(versions))
    with tempfile.TemporaryDirectory() as scratch:
        source, map_file = pathlib.Path(scratch, "stub.c"), pathlib.Path(scratch, "stub.map")
        source.write_text("\n".join(code) + "\n")
        map_file.write_text(script)
        command = ["cc", "-shared", "-fPIC", "-fno-builtin", "-O1", "-nostdlib", "-w", f"-Wl,-soname,{library}"]
        command += [f"-Wl,--version-script,{map_file}"] if script else []
        subprocess.run([*command, "-o", folder / library, source], check=True)


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: stub_libraries.py SITE_PACKAGES")
    site = pathlib.Path(sys.argv[1])
    objects = [path for path in (site / "torch/lib").glob("*.so*") if path.is_file() and not path.is_symlink()]
    needed, versions, wanted, own = set(), {}, set(), set()
    for path in objects:
        libraries, file_versions, symbols, defined = needs_of(path)
        needed.update(libraries)
        wanted.update(symbols)
        own.update(defined)
        for library, names in file_versions.items():
            versions.setdefault(library, set()).update(names)
    there = {path.name for folder in (site / "torch/lib", site / "nvidia") for path in folder.glob("**/*.so*")}
    missing = sorted(library for library in needed - there if LIBRARY.match(library))
    if not missing:
        return
    toolkit = next((library.split(".")[-1] for library in needed if library.startswith("libcudart.so.")), "13")
    folder = site / "nvidia" / f"cu{toolkit}" / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    for library in missing:
        names = versions.get(library, set())
        symbols = {(name, version) for name, version in wanted if version in names}
        # The first stub has the functions without a version, of all libraries: the loader looks in all of them.
        if library == missing[0]:
            symbols |= {(name, None) for name, version in wanted if version is None and FUNCTION.match(name) and name not in own}
        compile_stub(folder, library, symbols, names)
    print(f"stubs of {len(missing)} CUDA libraries: {', '.join(missing)}")


if __name__ == "__main__":
    main()
