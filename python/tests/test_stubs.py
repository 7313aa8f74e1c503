"""_core.pyi is true: its names and arguments, from which docstrings are made, are those of the extension. mypy tells right calls from
wrong ones."""

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import fovea

WEIGHT = numpy.zeros((32, 32), numpy.float32)
PACKAGE = Path(fovea.__file__).parent
STUB = [node for name in ("_fields.pyi", "_core.pyi") for node in ast.parse((PACKAGE / name).read_text()).body]
CLASSES = {node.name: node for node in STUB if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name for node in STUB if isinstance(node, ast.FunctionDef)}
PLAIN = {
    name
    for name, node in CLASSES.items()
    if not any("TypedDict" in ast.dump(base) for base in node.bases) and name[0] != "_"
}


def true_parameters(function):
    """{name: (kind, default)} of what runs, by its docstring's first lines. A default is its repr(), or None."""
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        found[name] = (parameter.kind, default)
    return found


def callables():
    """(name, what runs)."""
    for name in sorted(FUNCTIONS):
        yield name, getattr(fovea._core, name)
    for name in sorted(PLAIN):
        kind = getattr(fovea._core, name)
        for node in CLASSES[name].body:
            other = not isinstance(node, ast.FunctionDef) or node.name in ("__enter__", "__exit__")
            if not other and not any(ast.unparse(x) == "property" for x in node.decorator_list):
                yield f"{name}.{node.name}", kind if node.name == "__new__" else getattr(kind, node.name)


def test_names():
    told = (
        FUNCTIONS
        | PLAIN
        | {t.id for node in STUB if isinstance(node, ast.Assign) for t in node.targets if hasattr(fovea._core, t.id)}
    )
    told |= {node.target.id for node in STUB if isinstance(node, ast.AnnAssign)}
    there = {name for name in vars(fovea._core) if not name.startswith("__")} | {"__version__"}
    assert told == there
    for name in PLAIN - {"CacheFullError"}:
        body = CLASSES[name].body
        told = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        told |= {t.id for node in body if isinstance(node, ast.Assign) for t in node.targets}
        there = vars(getattr(fovea._core, name))
        mine = {x for x in there if x[0] != "_" or x in ("__call__", "__enter__", "__exit__")}
        assert told - {"__new__"} == mine | (told & {"__getnewargs_ex__", "__reduce__", "__repr__"}), name
    assert sorted(fovea.__all__) == fovea.__all__ and all(hasattr(fovea, name) for name in fovea.__all__)


@pytest.mark.parametrize("name, runs", dict(callables()).items(), ids=lambda x: x if isinstance(x, str) else "")
def test_arguments_are_taken(name, runs):
    """Those of the docstring by C, too, and no others."""
    if isinstance(runs, type) or type(runs).__name__ == "builtin_function_or_method":
        true = true_parameters(runs) if runs.__text_signature__ else {}
        needed = {x: 1 for x, (kind, default) in true.items() if default is None}
        for argument in (
            [*true, "anything_else"]
            if true and inspect.Parameter.POSITIONAL_ONLY not in [x[0] for x in true.values()]
            else []
        ):
            sentence = ""
            try:
                runs(**needed | {argument: object()})
            except (TypeError, ValueError) as error:
                sentence = str(error)
            unknown = any(
                x in sentence for x in ("has no argument", "invalid keyword", "unexpected keyword", "at most")
            )
            assert unknown == (argument == "anything_else"), (argument, sentence)


def test_an_option_of_the_list_is_one_of_python(tmp_path):
    """A number that include/fovea/fields.inc gets is a keyword, with its line in help() and its key in the stub; likewise the word
    of an activation."""
    root = Path(__file__).parents[2]
    rows, more = (root / "include/fovea/fields.inc").read_text(), 'FOVEA_DESC_NUMBER(tilt, 0, 9, "added to scores")\n'
    rows += 'FOVEA_ACTIVATION_ROW(QUICK, "quick", QUICK, "t * sigmoid(1.7 t)")\n'
    (tmp_path / "fields.inc").write_text(rows.replace("FOVEA_DESC_NUMBER(softcap", more + "FOVEA_DESC_NUMBER(softcap"))
    command = [sys.executable, root / "python/stub.py", tmp_path / "fields.inc", PACKAGE / "_core.pyi", tmp_path]
    subprocess.run(command, check=True)
    header, source = (tmp_path / "stub.h").read_text(), (tmp_path / "stub.c").read_text()
    assert "X(tilt)" in header and "&(values)[PY_ARG_tilt]" in header and '"scale, tilt, softcap"' in header
    assert "tilt           added to scores." in source and source.count("tilt=None") == 4  # attention, Plan, attend, MultiHead
    assert "quick           t * sigmoid(1.7 t)" in source
    keys = (tmp_path / "fovea/_fields.pyi").read_text()
    assert "tilt: float | None" in keys and '"softplus", "quick"]' in keys


# Without a counterpart in C: layouts are strides there, lists are arrays of structs, _renew() is for fovea.tuning alone.
OWN = set("layout out_layout outs lses prepare ranges source cache_dtype models_arithmetic _renew".split())


def test_names_are_those_of_c():
    """Those of functions and arguments; others are in a table of docs/python/attention.md."""
    root = Path(__file__).parents[2]
    headers = "".join(path.read_text() for path in (root / "include/fovea").iterdir() if path.name != "compat.h")
    known = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/", "", headers, flags=re.S))) | OWN
    known |= {name.removeprefix("relative_") for name in known}
    page = (root / "docs/python/attention.md").read_text()
    table = page[page.index("### Names in C and here") :].split("\n\n")[2]
    known |= set(re.findall(r"\w+", " ".join(row.split("|")[2] for row in table.splitlines())))
    names = {name if name in known else f"fovea_{name}" for name in FUNCTIONS}
    for _, runs in callables():
        names |= true_parameters(runs).keys() if getattr(runs, "__text_signature__", None) else set()
    assert not names - known


USERS = """
from typing import Any
import fovea

class Tensor: ...

q, k, v, w = Tensor(), Tensor(), Tensor(), Tensor()
out: Tensor = fovea.attention(q, k, v, causal="top_left", window=(3, None), scale=0.5, kv_lens=[1, 2], layout="bthd")
out, lse = fovea.attention(q, k, v, causal=True, return_lse=True)
out = fovea.attention(q, k, v, mask=fovea.Mask.boolean(w), bias=None, out=out, arithmetic="exact")
fovea.attention(q, k, v, attn_mask=w)  # wrong
fovea.attention(q, k)  # wrong
fovea.attention(q, k, v, w)  # wrong
fovea.attention(q, k, v, layout="hbtd")  # wrong
fovea.attention(q, k, v, window=3)  # wrong
fovea.attention(q, k, v, scale="0.5")  # wrong
fovea.attention(q, k, v, relative=w)  # wrong
plan = fovea.Plan(q_heads=4, q_len=1, kv_len=9, head_dim=64, causal="offset", mask="boolean")
text: str = plan.describe()
size: int = plan.workspace_size
fovea.Plan(q_heads=4, q_len=1, kv_len=9)  # wrong
fovea.Plan(q_heads=4, q_len=1, kv_len=9, head_dim=64, causal=3)  # wrong
plan.workspace_size = 3  # wrong
one, several = fovea.Linear(w, activation="gelu", heads=4), fovea.Linear([w, w], [None, w], heads=[4, None])
one(q, residual=k, lens=[1])
one.apply(q, out=k)
fovea.Linear(w, activation="elu")  # wrong
fovea.Linear(w, heads=[4])  # wrong
one(q, lengths=[1])  # wrong
cache = fovea.KVCache(2, 4, 64, dtype="bfloat16", max_pages=8, windows=[None, 128], rope=fovea.Rope(64, scaling="yarn"))
sequence: int = cache.add()
cache.append(0, [sequence], k, v, rotated=True)
got: Tensor | tuple[Any, ...] = cache.attend(0, sequence, q, causal="bottom_right")
saved: bytes = cache.save(sequence)
cache.attend(0, sequence, q, kv_starts=[0])  # wrong
cache.append(0, "all", k, v)
fovea.KVCache(2, 4)  # wrong
fovea.KVCache(2, 4, 64, dtype="int2")  # wrong
fovea.KVCache(2, 4, 64, k_dtype="int8", v_dtype="int4", max_pages=8)
states = fovea.StateCache([64, 128], max_sequences=4, slots=2)
states.check(states.add(), cache, sequence)
after, none = fovea.gated_delta_rule(q, k, v, cache=states, cache_state=0, sequences=[0])
fovea.StateCache([64])  # wrong
layer = fovea.MultiHead(q_heads=4, q=w, k=w, v=w, o=w, form="factored", cache_dtype=("int8", "float16"))
layer(q, cache=cache, layer=0, sequences=[1])
fovea.MultiHead(q_heads=4, q=w, form="merge")  # wrong
merged, lse = fovea.merge([q, k], [lse, lse], sinks=None)
fovea.merge(q, [lse])  # wrong
rotated: Tensor = fovea.Rope(64).apply(q, 3, out=q)
fovea.Rope(64, pairing="both")  # wrong
with fovea.config(threads=2, isa="avx2"):
    threads: int = fovea.get_num_threads()
fovea.config(isa="sse")  # wrong
found: dict[str, Any] = fovea.tune(lambda: None, budget=1)
fovea.tune(budget="long")  # wrong
with fovea.log_shapes("file"):
    pass
"""


@pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="no mypy")
def test_mypy(tmp_path):
    (tmp_path / "users.py").write_text(USERS)
    (tmp_path / "fovea").symlink_to(PACKAGE)  # mypy wants no path of installed packages
    skipped = "[mypy-numpy.*,onnx.*]\nfollow_imports = skip\nignore_missing_imports = True\n"
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n" + skipped)
    strict = [f"fovea/{name}" for name in ("__init__.py", "_core.pyi", "_sentences.py", "tuning.py", "onnx.py")]
    command = [sys.executable, "-m", "mypy", "--cache-dir=cache", "--no-error-summary", "users.py", *strict]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert not [line for line in errors if not line.startswith("users.py:")], done.stdout
    told = {int(line.split(":")[1]) for line in errors}
    assert told == {i for i, line in enumerate(USERS.splitlines(), 1) if "# wrong" in line}, done.stdout + done.stderr
    # The whole package, where strict would ask for the types of torch and transformers, whose reading takes minutes.
    libraries = "[mypy-aiohttp.*,huggingface_hub.*,llama_cpp.*,ml_dtypes.*,numpy.*,onnx.*,tokenizers.*,torch.*,tqdm.*,transformers.*]\n"
    options = "follow_imports = skip\nignore_missing_imports = True\n"
    (tmp_path / "mypy.ini").write_text("[mypy]\n" + libraries + options)
    command = [sys.executable, "-m", "mypy", "--cache-dir=whole", "--package=fovea"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name, call",
    [
        ("Activation", lambda: fovea.Linear(WEIGHT, activation="no such")),
        ("Quantized", lambda: fovea.Linear.quantized(WEIGHT, "no such")),
    ],
)
def test_words_are_the_library_s(name, call):
    with pytest.raises(ValueError, match="not 'no such'") as error:
        call()
    value = next(node.value for node in STUB if isinstance(node, ast.Assign) and node.targets[0].id == name)
    words = [node.value for node in ast.walk(value) if isinstance(node, ast.Constant)]
    assert sorted(words) == sorted(re.findall("'([^']+)'", str(error.value).rpartition(", not ")[0]))
