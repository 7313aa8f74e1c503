"""The structs of Fovea's headers as ctypes has them, read from the headers: of("attention_desc"); and numbers of theirs:
constant("dtype_f32"). Pointers are addresses, enumerations are ints, a field named like a word of Python has a _ behind it.

structs.py CC INCLUDE compares them with what the compiler makes of the headers: the places of all fields, and sizes. It
refuses names of functions, structs and numbers in this folder that the headers lack."""

import ctypes
import functools
import keyword
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
SIMPLE = {"size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "int": ctypes.c_int, "float": ctypes.c_float,
          "double": ctypes.c_double, "char": ctypes.c_char}


@functools.cache
def text():
    found = "\n".join(path.read_text() for path in sorted((INCLUDE / "fovea").glob("*.h")))
    return re.sub(r"/\*.*?\*/", "", found, flags=re.DOTALL)


@functools.cache
def constant(name):
    """The value of an enumerator or a macro."""
    return int(re.search(rf"\bFOVEA_{name.upper()}(?: =)? (\d+)", text())[1])


@functools.cache
def declared():
    """{name: the text between the braces} of all structs, and the names of all types of functions."""
    structs = {name: body for name, body in re.findall(r"struct fovea_(\w+) \{([^{}]*)\}", text())}
    return structs, set(re.findall(r"typedef \w+ \(\*(\w+)\)", text()))


def fields(declaration):
    """(name, type) of what a declaration declares, as "int64_t batch, shape[4]"."""
    kind, _, names = re.sub(r"\b(const|struct) ", "", declaration.strip()).partition(" ")
    if "(" in names:  # a function's address: its name is in the first brackets
        yield re.search(r"\(\*(\w+)\)", names)[1], ctypes.c_void_p
        return
    for name in names.split(","):
        pointer, name, count = re.fullmatch(r"\s*(\**)(\w+)(?:\[(\w+)\])?\s*", name).groups()
        short = kind.removeprefix("fovea_")
        if pointer or kind in declared()[1]:
            found = ctypes.c_void_p
        else:
            found = of(short) if short in declared()[0] else SIMPLE.get(kind, ctypes.c_int)
        yield name + "_" * keyword.iskeyword(name), found * int(count) if count else found


@functools.cache
def of(name):
    found = [field for line in declared()[0][name].split(";")[:-1] for field in fields(line)]
    return type(name, (ctypes.Structure,), {"_fields_": found})


def unknown():
    """Names that the programs of this folder call or make, and the headers do not declare."""
    programs = "\n".join(path.read_text() for path in pathlib.Path(__file__).parent.glob("*.py"))
    yield from (name for name in set(re.findall(r"\bc\.(fovea_\w+)", programs)) if not re.search(rf"\b{name}\(", text()))
    yield from (name for name in set(re.findall(r'\bnew\(\w[\w.]*, "(\w+)"\)', programs)) if name not in declared()[0])
    numbers = set(re.findall(r'\bconstant\("(\w+)"\)', programs))
    yield from (name for name in numbers if not re.search(rf"\bFOVEA_{name.upper()}(?: =)? \d", text()))


def compare(compiler, include):
    global INCLUDE
    INCLUDE = pathlib.Path(include)
    asserts = ["#include <fovea/fovea.h>", "#include <assert.h>"]
    for name in declared()[0]:
        struct = of(name)
        places = {f"offsetof(fovea_{name}, {field.rstrip('_')})": getattr(struct, field).offset for field, _ in struct._fields_}
        places[f"sizeof(fovea_{name})"] = ctypes.sizeof(struct)
        asserts += [f'static_assert({place} == {here}, "");' for place, here in places.items()]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "structs.c")
        source.write_text("\n".join(asserts) + "\n")
        subprocess.run([compiler, "-std=c11", f"-I{include}", "-fsyntax-only", source], check=True)
    if missing := sorted(unknown()):
        sys.exit(f"not in the headers: {', '.join(missing)}")
    print(f"{len(declared()[0])} structs, {len(asserts) - 2} places")


if __name__ == "__main__":
    compare(*sys.argv[1:])
