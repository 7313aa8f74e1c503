"""The reader of bytecode: what a method does, in order, as far as that is known without running it.

one_product.py, recorded.py and reads.py ask it. It knows the instructions of CPython 3.11 to 3.14 that straight code of
modules has; another one is a Node "unknown", after which nothing is known of values that were there before.
"""

import dis
import sys
from dataclasses import dataclass
from typing import Any

_NOTHING = frozenset("RESUME NOP CACHE EXTENDED_ARG PRECALL MAKE_CELL COPY_FREE_VARS NOT_TAKEN".split())


@dataclass(eq=False, slots=True)
class Node:
    """A thing done and its value: "local", "constant" and "global" (name: the name, or the constant), "read" (of attribute
    name), "call" (of inputs[0] with the others, the last of them by the names of name; "*": with all of a tuple),
    "operation" (name: "+", "[]"), "tuple", "return", "unknown".
    """

    kind: str
    inputs: tuple = ()
    name: Any = None
    place: int = -1  # in the bytecode, of a call
    held: bool = False  # a local name has been given the value


class Program:
    """The nodes of a function. Of a local name that is not stored to, all reads are one node.

    straight: nothing is unknown, and its end is its only return. stored: names of locals that get another value.
    loops: [(first place, last place)].
    """

    def __init__(self, function):
        self.nodes: list[Node] = []
        self.stored: set[str] = set()
        self._constants = function.__code__.co_consts
        self._forget()
        instructions = [*dis.get_instructions(function)]
        for i in instructions:
            if i.is_jump_target:
                self._forget()
            if i.opname not in _NOTHING and not self._step(i):
                self._forget()
        jumps = dis.hasjrel + dis.hasjabs
        self.loops = [(i.argval, i.offset) for i in instructions if i.opcode in jumps and i.argval <= i.offset]
        ends = [node.kind in ("return", "unknown") for node in self.nodes[1:]]
        self.straight = ends.index(True) == len(ends) - 1 and self.nodes[-1].kind == "return"

    def _forget(self):
        self._stack: list[Node | None] = []  # None: a null of CPython's
        self._locals: dict[str, Node] = {}
        self._by_name: tuple = ()
        self.nodes.append(Node("unknown"))

    def _take(self, count=1):
        """The topmost values."""
        return [self._stack.pop() if self._stack else Node("unknown") for _ in range(count)][::-1]

    def _push(self, kind, inputs=(), name=None, place=-1):
        node = Node(kind, tuple(inputs), name, place)
        self.nodes.append(node)
        self._stack.append(node)

    def _step(self, i) -> bool:
        """Whether the instruction is a known one."""
        name, stack = i.opname, self._stack
        if name.startswith(("LOAD_FAST", "STORE_FAST")):
            self._fast(name, i.argval)
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT"):
            self._push("constant", name=i.argval)
        elif name == "LOAD_GLOBAL":
            nulls = [None] * (i.arg & 1)
            stack += nulls if sys.version_info < (3, 13) else []
            self._push("global", name=i.argval)
            stack += nulls if sys.version_info >= (3, 13) else []
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self._push("read", self._take(), i.argval)
            if name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and i.arg & 1):
                stack.append(None)
        elif name == "PUSH_NULL":
            stack.append(None)
        elif name == "KW_NAMES":
            self._by_name = self._constants[i.arg]  # which dis does not look up
        elif name in ("CALL", "CALL_KW"):
            by_name = self._take()[0].name if name == "CALL_KW" else self._by_name
            arguments, function = self._take(i.arg), [v for v in self._take(2) if v]
            self._push("call", (*function, *arguments), by_name, i.offset)
            self._by_name = ()
            return len(function) == 1
        elif name == "CALL_FUNCTION_EX" and not i.arg and sys.version_info < (3, 14):
            *function, arguments = self._take(3)
            self._push("call", (*filter(None, function), arguments), "*", i.offset)
        elif name == "BINARY_OP":
            self._push("operation", self._take(2), i.argrepr)
        elif name == "BINARY_SUBSCR":
            self._push("operation", self._take(2), "[]")
        elif name == "BUILD_TUPLE":
            self._push("tuple", self._take(i.arg))
        elif name == "COPY" and len(stack) >= i.arg:
            stack.append(stack[-i.arg])
        elif name == "SWAP" and len(stack) >= i.arg:
            stack[-1], stack[-i.arg] = stack[-i.arg], stack[-1]
        elif name == "POP_TOP":
            self._take()
        elif name == "RETURN_CONST":
            self._push("constant", name=i.argval)
            self._push("return", self._take())
        elif name == "RETURN_VALUE":
            self._push("return", self._take())
        else:
            return False
        return True

    def _fast(self, opname, names):
        """Loads and stores of locals, two at once in what Python 3.13 joins."""
        names = names if isinstance(names, tuple) else (names,)
        for kind, name in zip(opname.split("_FAST")[:-1], names):
            if "STORE" in kind:
                (value,) = self._take()
                value.held, self._locals[name] = True, value
                self.stored.add(name)
            elif name in self._locals:
                self._stack.append(self._locals[name])
            else:
                self._push("local", name=name)
                self._locals[name] = self._stack[-1]
