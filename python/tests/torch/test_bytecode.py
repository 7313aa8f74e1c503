"""The reader of bytecode: what it knows of a function. Needs none of torch: each CPython can run this file by itself."""

import importlib.util
import pathlib

FILE = pathlib.Path(__file__).parents[2] / "fovea/torch/bytecode.py"
SPEC = importlib.util.spec_from_file_location("bytecode", FILE)
bytecode = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bytecode)


def text(node):
    """An expression that does what a node does."""
    inputs = [text(v) for v in node.inputs]
    if node.kind == "read":
        return f"{inputs[0]}.{node.name}"
    if node.kind == "call":
        names = ["*" if node.name == "*" else f"{name}=" for name in node.name]
        places = [""] * (len(inputs) - 1 - len(names)) + names
        return f"{inputs[0]}({', '.join(map(str.__add__, places, inputs[1:]))})"
    if node.kind == "operation":
        return f"({f' {node.name} '.join(inputs)})"
    return f"return {inputs[0]}" if node.kind == "return" else str(node.kind if node.name is None else node.name)


def told(function):
    program = bytecode.Program(function)
    nodes = program.nodes[1:] if program.straight else program.nodes
    return program, [text(n) for n in nodes if n.kind in ("call", "operation", "return", "unknown")]


def straight(self, x):
    y, z = self.q(x), x * 2
    h = torch.relu(F.gelu(y, approximate="tanh") + z)  # noqa: F821
    return self.o(h)


def branches(self, x):
    y = self.q(x)
    x = self.k(x)
    if y is x:
        return y
    for z in x:
        self = self.v(*z) + y[0]
    return self.o(y)


def caught(self, x):
    try:
        return self.q(x)
    except ValueError:
        return x


def test_straight():
    program, lines = told(straight)
    assert program.straight and program.stored == {"y", "z", "h"} and not program.loops
    h = "torch.relu((F.gelu(self.q(x), approximate=tanh) + (x * 2)))"
    assert lines[:2] == ["self.q(x)", "(x * 2)"] and lines[4:] == [h, f"self.o({h})", f"return self.o({h})"]


def test_branches():
    program, lines = told(branches)
    assert not program.straight and program.stored == {"x", "y", "z", "self"} and len(program.loops) == 1
    assert lines[:4] == ["unknown", "self.q(x)", "self.k(x)", "unknown"] and lines[-1] == "return self.o(y)"
    assert "(self.v(*unknown) + (y [] 0))" in lines
    # A name read before a branch is another node than the same name read behind it.
    reads = [n.inputs[0] for n in program.nodes if n.kind == "read" and n.name in "qko"]
    assert reads[0] is reads[1] is not reads[2]


def test_exceptions():
    assert not told(caught)[0].straight
