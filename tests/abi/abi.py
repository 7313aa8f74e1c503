#!/usr/bin/env python3
"""abi.py: compares the public interface with the one that fovea.abi next to this file keeps, and fails if something was removed or
changed. What was added is printed, and fine. With --write it keeps today's interface instead.

The interface is that of the headers: a library of stubs is made of them, since abidw reads functions and types from a library's debug
information. Test package.shared.symbols shows that the real library exports just these functions. FOVEA_INCLUDE names other headers.

Verdicts come from abidiff, and from lists of all functions, fields and enumerators: abidiff has no word for a renamed field, and a
field that is appended to a struct hides what else changed in it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE / "fovea.abi"
INCLUDE = pathlib.Path(os.environ.get("FOVEA_INCLUDE", HERE.parents[1] / "include"))
FIXED = ("fovea_tensor", "fovea_matrix", "fovea_linear_part", "fovea_attention_part", "fovea_embedding_table")  # never grow
STYLE = ("--no-show-locs", "--no-comp-dir-path", "--no-corpus-path")


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def interface(folder):
    """abixml of the headers."""
    header, stub, library = INCLUDE / "fovea/fovea.h", folder / "stub.c", folder / "libfovea.so"
    text = subprocess.check_output(["gcc", "-E", "-P", f"-I{INCLUDE}", header], text=True)
    declared = re.findall(r'__attribute__\(\(visibility\("default"\)\)\)([^;]*);', text)
    stub.write_text("#include <fovea/fovea.h>\n" + "".join(f"{one} {{ __builtin_trap(); }}\n" for one in declared))
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", f"-I{INCLUDE}", "stub.c", "-o", library], cwd=folder, check=True)
    return subprocess.check_output(["abidw", *STYLE, library], text=True)


def facts(xml):
    """{a function, a field with its place, an enumerator, the size of a struct that never grows}"""
    root = ET.fromstring(xml)
    types = {e.get("id"): e for e in root.iter() if e.get("id")}

    def name(key):
        e = types.get(key)
        if e is None:
            return key
        inner = lambda: name(e.get("type-id"))
        if e.tag == "pointer-type-def":
            return f"{inner()} *"
        if e.tag == "qualified-type-def":
            return f"const {inner()}"
        if e.tag == "array-type-def":
            return f"{inner()}[{', '.join(s.get('length') for s in e)}]"
        if e.tag == "function-type":
            return signature(e, "")
        return e.get("name")

    def signature(e, called):
        return f"{name(e.find('return').get('type-id'))} {called}({', '.join(name(p.get('type-id')) for p in e.findall('parameter'))})"

    found = set()
    for e in root.iter():
        if e.tag == "function-decl":
            found.add(signature(e, e.get("name")))
        elif e.tag == "enum-decl":
            found |= {f"{c.get('name')} = {c.get('value')}" for c in e.findall("enumerator")}
        elif e.tag == "class-decl" and e.findall("data-member"):
            fields = [(m.get("layout-offset-in-bits"), m.find("var-decl")) for m in e.findall("data-member")]
            found |= {f"{e.get('name')}: {name(v.get('type-id'))} {v.get('name')} at bit {at}" for at, v in fields}
            if e.get("name") in FIXED:
                found.add(f"{e.get('name')}: {e.get('size-in-bits')} bits")
    return found


def main():
    for tool in ("gcc", "abidw", "abidiff"):
        if not shutil.which(tool):
            skip(f"no {tool}")
    if os.uname().machine != "x86_64":
        skip("the kept interface is that of x86-64")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        today = interface(folder)
        if sys.argv[1:] == ["--write"]:
            KEPT.write_text(today)
            return 0
        (folder / "today.abi").write_text(today)
        command = ["abidiff", "--no-added-syms", "--suppr", HERE / "grow.abignore", KEPT, folder / "today.abi"]
        difference = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    before, now = facts(KEPT.read_text()), facts(today)
    lost = sorted(before - now)
    for one in sorted(now - before):
        print("new: " + one)
    for one in lost:
        print("gone or changed: " + one, file=sys.stderr)
    if difference.returncode or lost:
        print(difference.stdout, "The interface differs from tests/abi/fovea.abi.", sep="\n", file=sys.stderr)
    else:
        print(f"all {len(before)} functions, fields and enumerators are as they were")
    return 1 if difference.returncode or lost or not before else 0


if __name__ == "__main__":
    sys.exit(main())
