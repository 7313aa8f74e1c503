"""No modules of the package import each other in a circle, inside functions neither."""

import ast
import glob
import graphlib
import pathlib

import fovea

PACKAGE = pathlib.Path(fovea.__file__).parent


def modules():
    """{name: the file of a module}, the extension by its stub."""
    found = {}
    for path in map(pathlib.Path, glob.glob("**/*.py*", root_dir=PACKAGE, recursive=True)):
        if path.suffix in (".py", ".pyi"):
            found[".".join(["fovea", *path.with_suffix("").parts]).removesuffix(".__init__")] = PACKAGE / path
    return found


def imported(name, file):
    """Names that a module imports: those of modules, and of what is in them."""
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, [base, node.module]))
            yield from (f"{base}.{alias.name}" for alias in node.names)


def test_no_circles():
    known = modules()
    assert {"fovea", "fovea._core", "fovea.torch.optimize"} <= known.keys()
    graph = {}
    for name, file in known.items():
        needs = (each if each in known else each.rpartition(".")[0] for each in imported(name, file))
        graph[name] = {each for each in needs if each in known and each != name}
    assert graph["fovea.torch.exact"] == {"fovea.torch.types"}
    assert "fovea.transformers.optimized" in graph["fovea.torch.optimize"]
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the modules of a circle
