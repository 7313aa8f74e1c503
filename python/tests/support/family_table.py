#!/usr/bin/env python3
"""The table of families of models: which attention runs on Fovea, against eager attention.

    PYTHONPATH=build/python build/venv/torch/bin/python python/tests/support/family_table.py --write docs/families.md

makes the page anew, in some minutes. Each family is tried as families.py makes it: one call with eager attention, one with
attn_implementation="fovea", and, where modules have attention of their own, one of a copy of fovea.torch.optimize(). Two threads or
more do not change it. Names after --write are tried alone, and printed.
"""

import argparse
import contextlib
import multiprocessing
import re
import signal
import warnings

import families
import torch
import transformers

import fovea.torch
import fovea.transformers
from fovea.transformers import counters, own_attention, report

own_attention._FEW = 0  # what optimize() does with long texts is tried with short ones
BOUND = 2e-5  # of the largest number of an output: deep models in float32 differ by some 1e-6
SECONDS = 90  # of one family


def numbers_of(output):
    """The tensors of numbers in what a model gives back, but for caches and weights of attention."""
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, (tuple, list)):
        return [x for part in output for x in numbers_of(part)]
    if isinstance(output, dict):
        named = [part for name, part in output.items() if not any(word in name for word in ("cache", "past", "attentions"))]
        return [x for part in named for x in numbers_of(part)]
    return []


def call(model, inputs):
    torch.manual_seed(5)
    with torch.inference_mode():
        return numbers_of(dict(model(**inputs)))


def difference(wanted, got, mask):
    """The largest, of the largest number of an output, where eager is finite, and a mask of the text is true."""
    largest = 0.0
    for a, b in zip(wanted, got, strict=True):
        if mask is not None and a.shape[: mask.dim()] == mask.shape:
            a, b = a[mask.bool()], b[mask.bool()]
        seen = torch.isfinite(a)
        if seen.any():
            a, b = a[seen], b[seen]
            largest = max(largest, ((a - b).abs().max() / a.abs().max().clamp(min=1e-9)).nan_to_num(torch.inf).item())
    return largest


def _equal(model, other, inputs):
    """None if both give the same to rounding, else how they differ."""
    error = difference(call(model, inputs), call(other, inputs), inputs.get("attention_mask"))
    if error <= BOUND:
        return None
    if "attention_mask" in inputs:
        whole = inputs | {"attention_mask": torch.ones_like(inputs["attention_mask"])}
        if difference(call(model, whole), call(other, whole), None) <= BOUND:
            return "differs where a text is padded"
    return "differs"


def _short(reason):
    package = re.search(r"requires the (\w+) library", reason)
    if package:
        return f"needs {package[1]}"
    if reason.startswith(("its inputs", "no inputs")):
        return "no inputs are known that it takes"
    return "its configuration with small sizes is refused"


def record(name):
    """The table's record of a family: {"family": name, ...}."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    made = {"family": name}
    try:
        with _time():
            model, inputs = families.make(name)
    except families.Untried as error:
        return made | {"untried": _short(str(error))}
    except TimeoutError:
        return made | {"untried": "too slow"}
    made["class"] = type(model).__name__
    try:
        with _time():
            return made | _tried(model, inputs)
    except TimeoutError:
        return made | {"untried": "too slow"}
    except Exception as error:
        return made | {"raises": f"{type(error).__name__}: {error}".split("\n")[0][:100]}


@contextlib.contextmanager
def _time():
    def stop(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def _tried(model, inputs):
    eager = families.twin(model)
    model.set_attn_implementation("fovea")
    counters.reset()
    made = {"differs": _equal(eager, model, inputs)}
    made |= {"fused": counters.fused, "fallbacks": dict(counters.fallbacks), "own": {}, "served": []}
    for kind, classes in report(model).modules.items():
        if not kind.startswith("call the attention"):
            made["own"] |= classes
    if made["own"]:
        counters.reset()
        copied = fovea.torch.optimize(eager)
        made["differs"] = made["differs"] or _equal(eager, copied, inputs)
        kinds = report(copied).modules
        made["served"] = [name for kind, classes in kinds.items() if "optimize() has put" in kind for name in classes]
    return made


def kind_of(found):
    """The part of the page that a family belongs to."""
    if "untried" in found:
        return "untried"
    if "raises" in found or found["differs"]:
        return "wrong"
    served = not found["fused"] and found["own"] and set(found["own"]) <= set(found["served"])
    if served:
        return "optimized"
    if not found["fused"]:
        return "own" if found["own"] else "none"
    return "partly" if found["own"] or found["fallbacks"] else "fused"


def line(found):
    """A family's row of its part's table, or its name where the part is a list of names."""
    kind, name = kind_of(found), found["family"]
    if kind == "untried":
        return f"| {name} | {found['untried']} |"
    if kind == "wrong":
        return f"| {name} | {found.get('raises') or found['differs']} |"
    if kind in ("fused", "none"):
        return f"`{name}`"
    if kind == "optimized":
        return f"| {name} | {', '.join(sorted(found['own']))} |"
    reasons = [f"{owner}: its own code" for owner in sorted(set(found["own"]) - set(found["served"]))]
    reasons += [f"{owner}: by `optimize`" for owner in sorted(set(found["own"]) & set(found["served"]))]
    reasons += [f"falls back ({reason})" for reason in sorted(found["fallbacks"])]
    return f"| {name} | {'; '.join(reasons)} |"


_PARTS = [
    ("fused", "All attention runs on Fovea", None, "Every attention module asks for the implementation, and no call fell back."),
    ("partly", "Some of it", "family | what does not", "The other attention modules of these run on Fovea."),
    ("optimized", "With `fovea.torch.optimize`", "family | attention modules",
     "These write their attention out and never ask for an implementation. In a copy that `optimize` makes it\nruns on Fovea; "
     'with `attn_implementation="fovea"` alone it is transformers\' own.'),
    ("own", "Not served", "family | why", "Their attention is transformers' own code, which Fovea leaves alone."),
    ("none", "Without attention", None, "Convolutions, state spaces and the like: nothing called attention."),
    ("wrong", "Other results", "family | what",
     "These differ from eager attention beyond the bound, or raise: use another implementation."),
    ("untried", "Not tried", "family | why", "No small model of these could be made from a configuration alone."),
]  # fmt: skip


def page(records, version):
    """docs/families.md."""
    parts = {}
    for found in sorted(records, key=lambda found: found["family"]):
        parts.setdefault(kind_of(found), []).append(line(found))
    tried = sum(len(lines) for kind, lines in parts.items() if kind != "untried")
    lines = [
        "# Families of models in transformers",
        "",
        f"Which attention of a model runs on Fovea: {tried} families of transformers {version}, each as a small model with random weights,",
        "whose outputs are compared with those of eager attention. `fovea.transformers.report(model)` says the same of your",
        "model. To make this page anew:",
        "",
        "```",
        "PYTHONPATH=build/python build/venv/torch/bin/python python/tests/support/family_table.py --write docs/families.md",
        "```",
        "",
        "`python/tests/transformers/test_family_table.py` compares the page with some families, and with all in `make test-all`.",
    ]
    for kind, title, head, words in _PARTS:
        found = parts.get(kind, [])
        if not found:
            continue
        lines += ["", f"## {title} ({len(found)})", "", words, ""]
        lines += [f"| {head} |", "|---|---|", *found] if head else _wrapped(found)
    return "\n".join(lines) + "\n"


def _wrapped(names):
    lines = [""]
    for i, name in enumerate(names):
        name += "," if i + 1 < len(names) else ""
        if len(lines[-1]) + len(name) >= 119:
            lines.append("")
        lines[-1] += f" {name}" if lines[-1] else name
    return lines


def version():
    return ".".join(transformers.__version__.split(".")[:2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="FILE", help="write the page of all families")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("names", nargs="*", help="families to try")
    arguments = parser.parse_args()
    names = arguments.names or families.families()
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        records = []
        for found in pool.imap_unordered(record, names, chunksize=4):
            print(kind_of(found), line(found), flush=True)
            records.append(found)
    if arguments.write:
        with open(arguments.write, "w", encoding="utf-8") as file:
            file.write(page(records, version()))


if __name__ == "__main__":
    main()
