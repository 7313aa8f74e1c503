"""Writes what the package's C says of Python: docstrings and names of arguments, from the stub fovea/_core.pyi; and the keywords
of attention that are fields of the library, from include/fovea/fields.inc.

    stub.py FIELDS CORE_PYI OUT        writes OUT/stub.h, OUT/stub.c and OUT/fovea/_fields.pyi

A docstring begins with the signature, for help() and inspect. {options} in it stands for the keywords of **options, each with
the text below it in the stub, {activations} for words and formulas. _fields.pyi has the classes that _core.pyi imports.
"""

import ast
import json
import pathlib
import re
import sys
import textwrap

WIDTH = 124
# In Python under other names (q_cu_seqlens), in words of its own, or not at all.
OTHERWISE = ("q_cu_seqlens", "kv_cu_seqlens", "kv_starts", "cache_sequences")
# Functions whose arguments py_parse() finds; attention() has places of its own (call.h), which these share.
FAST = (
    "merge layer_norm rms_norm embedding_sum activate pool_tokens normalize_rows exp gated_delta_rule selective_scan causal_conv "
    "route KVCache.append Linear.apply Experts.apply"
).split()
PLACES = ("attention", "Plan.execute", "KVCache.attend", "MultiHead.execute")
DEFAULTS = {"bool": "False", "int": "0", "Layout": "'bhtd'"}  # of keys that cannot be None


def read_fields(path):
    """{kind: [(name, columns between, text)]} of the rows of fields.inc."""
    found = {}
    for kind, name, more, text in re.findall(r'^FOVEA_(\w+)\((\w+)(?:, (.*?))?, "([^"]*)"\)$', path.read_text(), re.M):
        found.setdefault(kind, []).append((name, more, text))
    return found


def activations(fields):
    """[(word, formula)], without none."""
    return [(more.split('"')[1], text) for _, more, text in fields["ACTIVATION_ROW"][1:]]


def fields_stub(fields):
    lengths = [row for row in fields["ARGS_LENGTHS"] if row[0] not in OTHERWISE]
    given = [(argument, None, text) for _, argument, text in fields["DESC_GIVEN"]]
    numbers = fields["DESC_NUMBER_IF"] + fields["DESC_NUMBER"]
    classes = {
        "Numbers": ("float | None", numbers),
        "Lengths": ("Any | None", lengths),
        "Heads": ("Any | None", fields["ARGS_HEADS"]),
        "Given": ("bool", given),
    }
    words = ", ".join(f'"{word}"' for word, _ in activations(fields))
    lines = ["from typing import Any, Literal, TypedDict", "", f"Activation = Literal[{words}]", ""]
    for name, (annotation, rows) in classes.items():
        lines.append(f"class {name}(TypedDict, total=False):")
        for key, _, text in rows:
            lines += [f"    {key}: {annotation}", f'    """{text}."""']
        lines.append("")
    return "\n".join(lines)


def fields_header(fields):
    numbers, given = fields["DESC_NUMBER_IF"] + fields["DESC_NUMBER"], fields["DESC_GIVEN"]
    to = [f"&(values)[PY_ARG_{name}]" for name, *_ in numbers] + [f"&(desc)->{name}" for name, *_ in given]
    return [
        "/* For PyArg_ParseTupleAndKeywords(): numbers are objects, flags are ints of a description. */",
        f'#define PY_FIELD_FORMAT "{"O" * len(numbers) + "p" * len(given)}"',
        f"#define PY_FIELDS(values, desc) {', '.join(to)}",
        f"#define PY_NUMBER_WORDS \"{', '.join(name for name, *_ in numbers)}\"",
        "",
    ]


def definitions(node):
    """{name: def}, of several overloads the one with the docstring, else the last."""
    found = {}
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and not ast.get_docstring(found.get(item.name, ast.parse(""))):
            found[item.name] = item
    return found


class Stub:
    def __init__(self, text, activations):
        self.activations = "\n".join(wrapped(f"{word:16}", formula) for word, formula in activations)
        tree = ast.parse(text)
        self.classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        self.functions = definitions(tree)

    def keys(self, name):
        """{key: (annotation, text)} of a TypedDict."""
        node = self.classes[name]
        found = {}
        for base in node.bases:
            found |= self.keys(base.id) if base.id in self.classes else {}
        for item, after in zip(node.body, [*node.body[1:], None]):
            if isinstance(item, ast.AnnAssign):
                text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
                found[item.target.id] = (ast.unparse(item.annotation), " ".join(text.split()) if text is not ... else "")
        return found

    def options(self, node):
        return self.keys(node.args.kwarg.annotation.slice.id) if node.args.kwarg else {}

    def signature(self, name, node, bound):
        a = node.args
        positional = [*a.posonlyargs, *a.args]
        values = [None] * (len(positional) - len(a.defaults)) + a.defaults
        shown = [x.arg + (f"={ast.unparse(value)}" if value else "") for x, value in zip(positional, values)][bound:]
        if a.posonlyargs:
            shown.insert(len(a.posonlyargs) - bound, "/")
        named = [x.arg + (f"={ast.unparse(value)}" if value else "") for x, value in zip(a.kwonlyargs, a.kw_defaults)]
        for key, (annotation, _) in self.options(node).items():
            named.append(f"{key}={DEFAULTS.get(annotation, 'None')}")
        text = ", ".join([*shown, *["*"][: len(named)], *named])
        return wrapped(f"{name}(", text + ")")

    def callables(self):
        """(function or Class.method, def, how many of its arguments are bound, docstring); of a class: its name and __new__."""
        for name, node in self.functions.items():
            yield name, node, 0, ast.get_docstring(node)
        for kind, node in self.classes.items():
            methods = definitions(node)
            yield kind, methods.get("__new__"), 1, ast.get_docstring(node)
            for name, method in methods.items():
                if not name.startswith("_") and not method.decorator_list or ast.get_docstring(method):
                    yield f"{kind}.{name}", method, 1, ast.get_docstring(method)

    def docstring(self, name, node, bound, text):
        if "{options}" in text:
            lines = [wrapped(f"{key:14} ", words) for key, (_, words) in self.options(node).items() if words]
            text = text.replace("{options}", "\n".join(lines))
        text = text.replace("{activations}", self.activations)
        return f"{self.signature(name.split('.')[-1], node, bound)}\n--\n\n{text}" if node else text

    def arguments(self, node, bound):
        """All names, how many may be given by position, and how many must be given."""
        positional = [x.arg for x in node.args.args][bound:]
        names = [*positional, *(x.arg for x in node.args.kwonlyargs), *self.options(node)]
        return names, len(positional), len(positional) - len(node.args.defaults)


def literal(text):
    return "\n".join(f"    {json.dumps(line + chr(10))}" for line in text.split("\n")).removesuffix('\\n"') + '"'


def wrapped(head, text):
    return textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False)


def main(fields_path, stub_path, out):
    fields = read_fields(pathlib.Path(fields_path))
    own = fields_stub(fields)
    stub = Stub(own + pathlib.Path(stub_path).read_text(), activations(fields))
    source, declared, interned = [], [], {}
    for name, node, bound, text in stub.callables():
        c_name = f"py_{name.replace('.', '_').lower()}"
        if text:
            declared.append(f"extern const char {c_name}_doc[];")
            source.append(f"const char {c_name}_doc[] =\n{literal(stub.docstring(name, node, bound, text))};\n")
        names, positional, needed = stub.arguments(node, bound) if node else ([], 0, 0)
        if name in (*FAST, *PLACES):
            interned |= dict.fromkeys(names)
        if name in FAST:
            declared.append(f"extern const struct py_signature {c_name}_signature;")
            places = ", ".join(f"PY_NAME_{x}" for x in names)
            rest = f'"{name.split(".")[-1]}", names_of_{c_name}, {len(names)}, {positional}, {needed}'
            source.append(f"static const short names_of_{c_name}[] = {{{places}}};")
            source.append(f"const py_signature {c_name}_signature = {{{rest}}};\n")
        if names and name not in PLACES:
            declared.append(f"extern char *{c_name}_names[];")
            source.append(f"char *{c_name}_names[] = {{{', '.join(map(json.dumps, names))}, NULL}};\n")
    first = stub.arguments(stub.functions["attention"], 0)[0]
    header = ["#ifndef PY_STUB_H", "#define PY_STUB_H", "", "/* The arguments of attention(), and those of other functions. */"]
    for macro, names in (("ATTENTION", first), ("OTHER", [x for x in interned if x not in first])):
        header.append(f"#define PY_{macro}_NAMES(X) {' '.join(f'X({x})' for x in names)}")
    header += [*fields_header(fields), *declared, "", "#endif", ""]
    folder = pathlib.Path(out)
    (folder / "fovea").mkdir(exist_ok=True)
    for file, lines in (("stub.h", header), ("stub.c", ['#include "keywords.h"', "", *source]), ("fovea/_fields.pyi", [own])):
        (folder / file).write_text("\n".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
