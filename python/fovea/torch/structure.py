"""What the code of a module proves about its linear maps.

  same_input()  which of them are applied to the same value: read from the source of forward(). Holds for attention's
                projections of nearly all models, and for gated MLPs.
  fuse()        which activations and residual additions follow them directly: seen by tracing forward() with torch.fx.
                Only straight code is taken: every argument is required, and each step is a submodule, an addition or a
                product. So nothing that depends on values, on options or on types can hide in it.
"""

import ast
import inspect
import operator
import textwrap
import types

import torch
import torch.nn.functional as F
from torch import fx, nn

_GELU_CLASSES = {
    "GELUActivation": "gelu",
    "NewGELUActivation": "gelu_tanh",
    "GELUTanh": "gelu_tanh",
    "FastGELUActivation": "gelu_tanh",
}


def activation_of(module) -> str | None:
    """The activation of Fovea that a module or a function computes, or None."""
    if module is F.relu or module is F.gelu:
        return "relu" if module is F.relu else "gelu"
    if type(module) is nn.ReLU:
        return "relu"
    if type(module) is nn.GELU:
        return "gelu" if module.approximate == "none" else "gelu_tanh"
    if type(module).__module__ == "transformers.activations":
        return _GELU_CLASSES.get(type(module).__name__)
    return None


class _Calls(ast.NodeVisitor):
    """Calls self.NAME(VARIABLE) of forward(), with the block that each stands in, and where variables change."""

    def __init__(self, names):
        self.names = names
        self.calls: dict = {}  # name: [(variable or None, block, line)]
        self.changes: list = []  # (variable, line)
        self._block = 0

    def generic_visit(self, node):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                outer, self._block = self._block, id(value)
                for statement in value:
                    self.visit(statement)
                self._block = outer
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.AST):
                        self.visit(item)
            elif isinstance(value, ast.AST):
                self.visit(value)

    def visit_Name(self, node):
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self.changes.append((node.id, node.lineno))

    def visit_Call(self, node):
        function = node.func
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            if function.value.id == "self" and function.attr in self.names:
                plain = len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Name)
                variable = node.args[0].id if plain else None
                self.calls.setdefault(function.attr, []).append((variable, self._block, node.lineno))
            elif function.attr.endswith("_"):  # changes the variable in place
                self.changes.append((function.value.id, node.lineno))
        self.generic_visit(node)


def same_input(module, names) -> list[list[str]]:
    """Groups of two or more of the children `names` that forward() applies to the same variable, each once, in one
    block, with the variable unchanged between them."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(type(module).forward))))
    except (OSError, TypeError, SyntaxError):
        return []
    found = _Calls(set(names))
    found.visit(tree)
    groups: dict = {}
    for name, calls in found.calls.items():
        if len(calls) == 1 and calls[0][0] is not None:
            variable, block, line = calls[0]
            groups.setdefault((variable, block), []).append((line, name))
    result = []
    for (variable, _), members in groups.items():
        first, last = min(members)[0], max(members)[0]
        if len(members) > 1 and not any(v == variable and first <= line < last for v, line in found.changes):
            result.append([name for _, name in members])
    return result


class _Tracer(fx.Tracer):
    def is_leaf_module(self, *_):
        return True


def _straight(module) -> fx.Graph | None:
    """The graph of a module whose forward() is straight code, or None."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(p.default is not p.empty or p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters):
        return None
    try:
        graph = _Tracer().trace(module)
    except Exception:  # control flow and whatever else a forward() may do with what is no tensor
        return None
    steps = (operator.add, operator.mul, torch.add, torch.mul)
    for node in graph.nodes:
        if node.op == "call_function" and node.target not in (*steps, F.gelu, F.relu, F.dropout):
            return None
        if node.op not in ("placeholder", "call_module", "call_function", "output"):
            return None
        if node.op == "call_module" and "." in node.target:
            return None
    return graph


def _activation(node, module) -> str | None:
    if node.op == "call_module":
        return activation_of(getattr(module, node.target))
    if node.target is F.relu:
        return "relu"
    if node.target is F.gelu:
        return {"none": "gelu", "tanh": "gelu_tanh"}.get(node.kwargs.get("approximate", "none"))
    return None


def _is_nothing(node, module) -> bool:
    """Whether a node does nothing in eval mode."""
    if node.op == "call_module":
        return isinstance(getattr(module, node.target), (nn.Dropout, nn.Identity))
    return node.target is F.dropout


def fuse(module, names) -> dict[str, tuple]:
    """Rewrites forward() of `module` so that activations and residuals go into the calls of its children `names`.

    Returns {name: (activation or None, has a residual)} of the children that are called anew.
    """
    graph = _straight(module)
    if graph is None:
        return {}
    for node in list(graph.nodes):
        if _is_nothing(node, module):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    targets = [node.target for node in graph.nodes if node.op == "call_module"]
    fused: dict = {}
    for node in list(graph.nodes):
        if node.op != "call_module" or node.target not in names or targets.count(node.target) > 1:
            continue
        activation, residual = None, False
        if len(node.users) == 1:
            user = next(iter(node.users))
            activation = _activation(user, module)
            if activation is not None:
                user.replace_all_uses_with(node)
                graph.erase_node(user)
        if len(node.users) == 1:
            user = next(iter(node.users))
            if user.target in (operator.add, torch.add) and not user.kwargs and len(user.args) == 2:
                other = user.args[1] if user.args[0] is node else user.args[0]
                if isinstance(other, fx.Node) and other is not node:
                    residual = True
                    with graph.inserting_before(user):
                        call = graph.call_module(node.target, (*node.args, other))
                    user.replace_all_uses_with(call)
                    graph.erase_node(user)
                    graph.erase_node(node)
        if activation is not None or residual:
            fused[node.target] = (activation, residual)
    if fused:
        graph.lint()
        code = graph.python_code("self")
        scope = dict(code.globals)
        exec(code.src, scope)
        module.forward = types.MethodType(scope["forward"], module)
    return fused
