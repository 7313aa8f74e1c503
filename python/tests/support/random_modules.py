"""Random modules, to compare fovea.torch.optimize(model) with the model.

    PYTHONPATH=build/python python python/tests/support/random_modules.py --seeds 20000 [--first N] [--jobs 2]
        --weights int8   quantize their linear maps
        --reduce         of modules that differ print only the lines which that needs
        --show SEED      prints the source of one module

program_of(seed) writes a module as source text that inspect.getsource() finds. run() optimizes it and compares the copy
with it (module_compare.py) for many inputs, called as a whole and part by part, and again after changes that a user may
make to both.
"""

import argparse
import collections
import contextlib
import functools
import linecache
import multiprocessing
import random
import sys
import time
import types
import warnings

import torch
from torch import nn

import fovea.torch
import module_parts
import module_straight
from module_compare import differences
from module_source import Class

_HEADER = """import operator

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.weight_norm import weight_norm as old_weight_norm

from module_parts import *

"""

_ROOTS = [  # (arguments, first lines, call, whether y may be None)
    ("x", [], "model(x)", False),
    ("x, y", [], "model(x, y)", False),
    ("x, y=None", [], "model(x, y)", True),
    ("x, *, y=None", [], "model(x, y=y)", True),
    ("*args", ["x, y = args"], "model(x, y)", False),
    ("xs", ["x, y = xs"], "model([x, y])", False),
    ("batch", ['x, y = batch["x"], batch["y"]'], 'model({"x": x, "y": y})', False),
    ("x, scale=0.5, **kwargs", ['x, y = x * scale, kwargs["y"]'], "model(x, y=y)", False),
    ("x, y=None, flag=True", [], "model(y=y, x=x)", True),
]
_RESULTS = ["{0}", "{0}", "{0}", "({0}, {1})", "[{0}, None]", '{{"out": {0}, "other": {1}}}', "Result({0}, {1})"]

# Changes to a child before optimize(), and after it: {m} is the child.
_HOOKS = [
    ("hook", "{m}.register_forward_hook(log('{path}'))"),
    ("hook, before", "{m}.register_forward_pre_hook(log('{path}'))"),
    ("hook with kwargs", "{m}.register_forward_hook(log('{path}'), with_kwargs=True)"),
    ("hook that scales", "{m}.register_forward_hook(scale_output)"),
    ("hook that scales", "{m}.register_forward_hook(scale_output_kwargs, with_kwargs=True)"),
    ("hook that writes", "{m}.register_forward_hook(write_output)"),
    ("hook that writes its input", "{m}.register_forward_pre_hook(write_input)"),
    ("hook that writes its input", "{m}.register_forward_hook(write_input_after)"),
    ("hook that replaces its input", "{m}.register_forward_pre_hook(replace_input)"),
    ("hook that replaces its input", "{m}.register_forward_pre_hook(replace_input_kwargs, with_kwargs=True)"),
    ("forward of an instance", "own_forward({m})"),
    ("forward wrapped", "wrapped_forward({m})"),
]
_WEIGHTS = [  # of a linear map, written so that doing it twice to shared weights is doing it once
    ("weights written", "{m}.weight.data.copy_(torch.full_like({m}.weight, 0.1))"),
    ("weights written", "{m}.weight.data[0] = 0.5"),
    ("weights replaced", "{m}.weight = nn.Parameter(torch.full_like({m}.weight, 0.1), requires_grad=False)"),
    ("weights replaced", "{m}.weight.data = torch.full_like({m}.weight, 0.1)"),
    ("bias removed", "{m}.bias = None"),
]


class Program:
    """The source of a module, and what of it a run needs to know."""

    def __init__(self, seed, source, shapes, width, needs_y, dtype, own_weights, changes, any_hook, weights):
        self.seed, self.source, self.shapes, self.width, self.dtype = seed, source, shapes, width, dtype
        self.needs_y, self.own_weights, self.changes, self.any_hook = needs_y, own_weights, changes, any_hook
        self.weights = weights


def load(source, name):
    """The module of a source text, which linecache and sys.modules know, as if it had been read from a file."""
    module = types.ModuleType(name)
    module.__file__ = f"<{name}>"
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(True), module.__file__)
    sys.modules[name] = module
    exec(compile(source, module.__file__, "exec"), module.__dict__)
    return module


def unload(module):
    linecache.cache.pop(module.__file__, None)
    sys.modules.pop(module.__name__, None)


def _classes(rng, width):
    blocks, lines = [], []
    for index in range(rng.choice((0, 1, 2, 2, 3, 3))):
        straight = rng.random() < 0.7
        two = rng.random() < 0.35
        optional = not straight and two
        block = Class(rng, f"Block{index}", width, list(blocks), straight, optional)
        if two and not optional:
            block.names.append("y")
        arguments = "x, y=None" if optional else "x, y" if two else "x"
        lines += ["", *block.text(arguments, [], "{0}")]
        blocks.append((block.name, 2 if two and (not optional or rng.random() < 0.5) else 1))
    arguments, first, call, may_be_none = rng.choice(_ROOTS)
    root = Class(rng, "Root", width, blocks, rng.random() < 0.25 and not first and "y=" not in arguments, may_be_none)
    if "y" in arguments or first:
        root.names += ["y"] if not may_be_none else []
    lines += ["", *root.text(arguments, first, rng.choice(_RESULTS))]
    return lines, call, may_be_none


def _targets(model):
    """All named children: (path, expression)."""
    return [(path, f"model.get_submodule({path!r})") for path, _ in model.named_modules() if path]


def _before(rng, model):
    lines, targets = [], _targets(model)
    for _ in range(rng.choice((0, 0, 1, 1, 2)) if targets else 0):
        path, m = rng.choice(targets)
        child = model.get_submodule(path)
        if isinstance(child, module_parts.Lora) and rng.random() < 0.5:
            lines.append(f"{m}.merge()  # adapter merged before")
        else:
            tag, text = rng.choice(_HOOKS)
            lines.append(f"{text.format(m=m, path=path)}  # {tag}")
    linears = [(path, m) for path, m in targets if type(model.get_submodule(path)) is nn.Linear]
    linears = [(path, m) for path, m in linears if isinstance(model.get_submodule(path).weight, nn.Parameter)]
    if len(linears) > 1 and rng.random() < 0.1:
        (_, a), (_, b) = rng.sample(linears, 2)
        lines.append(f"if {a}.weight.shape == {b}.weight.shape: {a}.weight = {b}.weight  # tied weights")
    return lines


def _after(rng, model):
    """Changes after optimize()."""
    lines, targets = [], _targets(model)
    fusible = [t for t in targets if isinstance(model.get_submodule(t[0]), (nn.ReLU, nn.GELU, nn.Dropout))] or targets
    for _ in range(rng.choice((0, 1, 1, 2)) if targets else 0):
        path, m = rng.choice(fusible if rng.random() < 0.4 else targets)
        child = model.get_submodule(path)
        parent, _, name = path.rpartition(".")
        of_torch = type(child).__module__ == "torch.nn.modules.activation" and not isinstance(
            child, nn.MultiheadAttention
        )
        choices = [*rng.sample(_HOOKS, 3), ("global changed", "FLAG = False")]
        # The numbers that dropout draws depend on the strides of its input, which attention of the copy chooses by itself.
        if isinstance(child, nn.Dropout) and not any(isinstance(m, nn.MultiheadAttention) for m in model.modules()):
            choices = [("dropout.train()", "{m}.train()")]
        elif isinstance(child, module_parts.Lora):
            choices += [("adapter merged", "if {m}.way == 'add': {m}.merge()")] * 4
        elif isinstance(child, nn.Sequential):
            choices += [("Sequential appended", "{m}.append(nn.Tanh())"), ("Sequential shortened", "del {m}[-1]")]
            choices += [("Sequential written", "{m}[0] = nn.Tanh()")]
        elif type(child) is nn.Linear:
            text = (
                f"setattr(model.get_submodule({parent!r}), {name!r}, HalfLinear({{m}}.in_features, {{m}}.out_features))"
            )
            choices += [*_WEIGHTS, ("linear replaced", text), ("class changed", "{m}.__class__ = HalfLinear")]
        elif of_torch:
            choices += [("activation replaced", f"setattr(model.get_submodule({parent!r}), {name!r}, nn.Tanh())")] * 3
            choices += [("forward of an instance", "own_forward({m})")]
            if type(child) is nn.GELU:
                choices += [
                    ("activation changed", "{m}.approximate = 'tanh' if {m}.approximate == 'none' else 'none'")
                ] * 3
            choices += [
                ("class changed", f"{{m}}.__class__ = {'HalfGELU' if type(child) is nn.GELU else 'nn.Tanh'}")
            ] * 3
            choices += [
                ("activation changed", "{m}.inplace = not getattr({m}, 'inplace', False)")
                if hasattr(child, "inplace")
                else choices[0]
            ]
        elif isinstance(child, nn.LayerNorm):
            choices += [("norm changed", "{m}.eps = 2.0")] * 2
        elif hasattr(child, "function"):
            choices = [("attribute changed", "{m}.function = torch.tanh")]
        elif hasattr(child, "table"):
            choices += [
                ("attribute changed", "{m}.flag, {m}.scale = False, 0.25"),
                ("buffer changed", "{m}.table.fill_(0.2)"),
            ]
            choices += [("method changed", "{m}.helper = write")]
        tag, text = rng.choice(choices)
        lines.append(f"{text.format(m=m, path=path)}  # after: {tag}")
    return lines


def _direct(rng, model):
    """Calls of two maps of one parent by the user, with the input changed between them."""
    parents = [path for path, m in model.named_modules() if hasattr(m, "q")]
    if parents:
        lines = [f"parent = model.get_submodule({rng.choice(parents)!r})", *rng.choice(module_straight.OUTSIDE)]
        return [f"{line}  # called from outside" for line in lines]
    for path, parent in rng.sample(list(model.named_modules()), len(list(model.named_modules()))):
        maps = [n for n, m in parent.named_children() if type(m) is nn.Linear]
        if len(maps) > 1:
            a, b = rng.sample(maps, 2)
            if getattr(parent, a).in_features == getattr(parent, b).in_features:
                write = rng.choice(
                    ["x.mul_(0.5)", "x = x.clone()", "x[0] = 0", "x.data.mul_(0.5)", "pass", "torch.mul(x, 0.5, out=x)"]
                )
                return [f"parent = model.get_submodule({path!r})  # called from outside",
                        f"first = getattr(parent, {a!r})(x)  # called from outside", f"{write}  # called from outside",
                        f"return first, getattr(parent, {b!r})(x)  # called from outside"]  # fmt: skip
    return ["return None"]


def _function(head, lines):
    return [f"def {head}:", *(f"    {line}" for line in (lines or ["pass"])), ""]


def program_of(seed, weights=None) -> Program:
    """The module of a seed, whose linear maps optimize(weights=) quantizes."""
    rng = random.Random(seed)
    width = rng.choice((32, 40, 64) if weights else (4, 6, 8, 12, 16, 24, 40))
    if rng.random() < 0.5:
        classes, call, may_be_none = module_straight.classes(rng, width), "model(x)", False
    else:
        classes, call, may_be_none = _classes(rng, width)
    dtype = rng.choices(["float32", "bfloat16", "float64", "float16"], [85, 10, 2, 3])[0]
    build = [f"torch.default_generator.manual_seed({seed})", "model = Root()"]
    text = _HEADER + "\n".join([*classes, *_function("build()", [*build, "return model"])])
    module = load(text, f"random_module_{seed}")
    try:
        with torch.no_grad():
            model = module.build()
        before = _before(rng, model)
        after = _after(rng, model)
        direct = _direct(rng, model)
    finally:
        unload(module)
    build += [*before, "return model.eval()" + (f".to(torch.{dtype})" if dtype != "float32" else "")]
    after = [
        *(["global FLAG"] if any("FLAG" in line for line in after) else []),
        "torch.default_generator.manual_seed(0)",
        *after,
    ]
    functions = [*_function("build()", build), "", *_function("call(model, x, y)", [f"return {call}"]), "",
                 *_function("change(model)", after), "", *_function("direct(model, x)", direct)]  # fmt: skip
    text = _HEADER + "\n".join([*classes, "", *functions])
    own_weights = ".weight" in text  # which a change or an adapter writes to
    shapes = rng.sample(
        [(3, width), (2, 5, width), (1, width), (7, width), (2, 2, 3, width), (width,), (0, width), (2, 0, width)], 3
    )
    return Program(
        seed, text, shapes, width, may_be_none, getattr(torch, dtype), own_weights, bool(after), rng.random() < 0.08,
        weights)


@contextlib.contextmanager
def _slow_path():
    """nn.TransformerEncoderLayer without its fast path, which takes any GELU for the exact one."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def run(program, source=None):
    """(differences, report of the copy, how many calls it refused) of a program, or of a shorter source of it."""
    optimize = functools.partial(fovea.torch.optimize, **({"weights": program.weights} if program.weights else {}))
    module = load(source or program.source, f"random_module_{program.seed}")
    try:
        with _slow_path(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch: deprecations, and out= that resizes
            found, fast, refused = differences(program, module, optimize)
        return found, fast.fovea_report, refused
    finally:
        unload(module)


def reduced(program):
    """The source without all lines that a difference does not need."""

    def differs(source):
        try:
            found = run(program, source)[0]
        except Exception:
            return False
        return bool(found) and ("raised" in found[0]) == raised

    lines, raised = program.source.splitlines(), "raised" in run(program)[0][0]
    alone = lines[: lines.index("def direct(model, x):") + 1] + ["    return None"]
    lines = alone if differs("\n".join(alone)) else lines
    index = len(lines) - 1
    while index >= 0:
        depth = len(lines[index]) - len(lines[index].lstrip())
        end = index + 1
        while end < len(lines) and lines[end].strip() and len(lines[end]) - len(lines[end].lstrip()) > depth:
            end += 1
        without = lines[:index] + lines[end:]
        needed = not lines[index].strip() or "manual_seed" in lines[index]
        if not needed and differs("\n".join(without) + "\n"):
            lines = without
        index -= 1
    return "\n".join(lines) + "\n"


def constructs(source):
    """The constructs that the lines of a source name."""
    tags = [line.rpartition("  # ")[2] for line in source.splitlines() if "  # " in line]
    return sorted({tag for tag in tags if tag not in ("arguments", "result")})


def _work(seed, reduce, weights):
    program, found = program_of(seed, weights), []
    try:
        found, report, refused = run(program)
        lines = [*report.packed, *getattr(report, "fused", [])]
        did = [word for line in lines for word in ("one product", "gelu", "relu", "residual") if word in line]
        did += ["packed"] * len(report.packed) + ["left to torch"] * len(report.left) + ["refused"] * refused
    except Exception as error:  # optimize() itself, or what it made
        found, did = [f"{type(error).__name__}: {error}"], ["failed"]
        reduce = False
    source = reduced(program) if found and reduce else program.source
    return (
        seed,
        found,
        constructs(source),
        collections.Counter(did),
        source.partition("from module_parts import *")[2].strip() if found else "",
    )


def _star(arguments):
    torch.set_num_threads(1)
    return _work(*arguments)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)")
    parser.add_argument(
        "--reduce", action="store_true", help="print only the lines of a module that a difference needs"
    )
    parser.add_argument("--weights", metavar="WORD", help="quantize linear maps, as optimize(weights=) does")
    parser.add_argument("--show", type=int, metavar="SEED", help="print the source of one module and end")
    options = parser.parse_args()
    if options.show is not None:
        print(program_of(options.show, options.weights).source)
        return 0
    seeds = range(options.first, options.first + options.seeds)
    used, did, blamed, differ, start = collections.Counter(), collections.Counter(), {}, [], time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for done, (seed, found, tags, doings, source) in enumerate(
            pool.imap(_star, ((seed, options.reduce, options.weights) for seed in seeds), chunksize=10), 1
        ):
            used.update(tags)
            did.update(doings)
            if found:
                differ.append(seed)
                for tag in tags:
                    blamed.setdefault(tag, []).append(seed)
                print(
                    f"seed {seed} differs: {found[0]}\n  again: {sys.argv[0]} --first {seed} --seeds 1\n{source}",
                    flush=True,
                )
            if done % 500 == 0:
                left = (time.monotonic() - start) / done * (len(seeds) - done)
                text = f"{done} of {len(seeds)}: {len(differ)} differ, {left / 60:.1f} minutes left"
                print(text, file=sys.stderr, flush=True)
    print(
        f"{len(seeds)} modules, seeds {seeds[0]} to {seeds[-1]}: {len(differ)} differ; {time.monotonic() - start:.0f} s"
    )
    print("Did:", ", ".join(f"{name} {n}" for name, n in did.most_common()))
    if options.reduce:
        print(
            "Constructs of differences:",
            *(f"  {tag}: {list(map(str, s[:6]))}" for tag, s in sorted(blamed.items())),
            sep="\n",
        )
    else:
        print("Modules that have:", ", ".join(f"{name} {n}" for name, n in sorted(used.items())))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
