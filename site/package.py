"""Pages of the Python package, from its sources and stubs: nothing is imported, so neither a compiler nor PyTorch is needed."""

import ast
import pathlib
import re

import prose
import stub

# Modules, in the order of their pages.
MODULES = ("torch", "transformers", "sentence_transformers", "llama_cpp", "compat.flash_attn", "onnx", "receipts")


def entry(kind, signature, text, indent=""):
    said = prose.rst(text or "").replace("\n", f"\n{indent}    ")
    return f"{indent}.. py:{kind}:: {signature}\n\n{indent}    {said}\n"


def core(root):
    """fovea: functions and classes of the extension, as help() shows them."""
    fields = stub.read_fields(root / "include/fovea/fields.inc")
    made = stub.Stub(stub.fields_stub(fields) + (root / "python/fovea/_core.pyi").read_text(), stub.activations(fields))
    public = re.findall(r'"(\w+)"', (root / "python/fovea/__init__.py").read_text().split("__all__")[1])
    for name, node, bound, text in made.callables():
        if text and name.split(".")[0] in public:
            signature, _, said = made.docstring(name, node, bound, text).rpartition("--\n\n")
            short = name.split(".")[-1]
            kind = "method" if "." in name else "class" if name[0].isupper() else "function"
            if node and any(ast.unparse(one) == "property" for one in node.decorator_list):
                kind, signature = "property", ""
            yield entry(kind, " ".join(signature.split()) or short, said, "    " if "." in name else "")


def found(root, module, name):
    """The definition of a name that a module has, or imports from another module of the package."""
    path = root / "python" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.exists():
        return None
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and any(name in (one.asname, one.name) for one in node.names):
            inside = path.name == "__init__.py"
            base = module if inside else module.rpartition(".")[0]
            there = f"{base}.{node.module}" if node.level == 1 else node.module or base
            return found(root, there, name) if there.startswith("fovea") else None
    return None


def documented(node, indent=""):
    """A function, or a class with its public methods that have docstrings."""
    if isinstance(node, ast.FunctionDef):
        yield entry("method" if indent else "function", f"{node.name}({ast.unparse(unannotated(node.args, bool(indent)))})",
                    ast.get_docstring(node), indent)  # fmt: skip
        return
    first = next((one for one in node.body if getattr(one, "name", "") in ("__init__", "__new__")), None)
    arguments = f"({ast.unparse(unannotated(first.args, True))})" if first else ""
    yield entry("class", node.name + arguments, ast.get_docstring(node), indent)
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and ast.get_docstring(one):
            yield from documented(one, "    ")


def unannotated(args, bound):
    for one in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
        if one is not None:
            one.annotation = None
    if bound and args.args and args.args[0].arg in ("self", "cls"):
        args.args = args.args[1:]
    return args


def pages(root, folder):
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"fovea": ["Arrays of numpy, PyTorch and any DLPack library.", "", *core(root)]}
    for module in MODULES:
        path = root / "python/fovea" / module.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        tree = ast.parse(path.read_text())
        names = next((ast.literal_eval(node.value) for node in tree.body
                      if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"), [])  # fmt: skip
        names = names or [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
        nodes = [found(root, f"fovea.{module}", name) for name in names]
        texts[f"fovea.{module}"] = [prose.rst(ast.get_docstring(tree)), "", *(x for node in nodes if node for x in documented(node))]
    for name, lines in texts.items():
        heading = [name, "=" * len(name), "", f".. py:module:: {name}", ""]
        (folder / f"{name}.rst").write_text("\n".join(heading + lines))
    listed = "\n".join(texts)
    (folder / "index.md").write_text(
        f"# Python, module by module\n\nTexts are those of `help()`.\n\n```{{toctree}}\n:maxdepth: 1\n\n{listed}\n```\n")
