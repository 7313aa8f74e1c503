"""optimize(model, example=...): the copy is compared with a plain copy of the model, module by module.

Both run on copies of the example with the same random numbers, without gradients: first alone, as the copy will run;
then, if they differ, with hooks that keep what each module took and gave. A result may differ by BOUND of the largest
number of the original's.
"""

import copy
from collections import Counter

import torch

from .encoders import call_modules
from .exact import python_modules
from .fused import Fused

BOUND = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}


def _tensors(value) -> list:
    """The tensors in a result or in arguments, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in _tensors(item)]


def _why_different(got, want) -> str | None:
    """How one tensor differs from another beyond the bound, or None."""
    if got.shape != want.shape or got.dtype is not want.dtype:
        return f"is {tuple(got.shape)} of {got.dtype}, not {tuple(want.shape)} of {want.dtype}"
    if not want.is_floating_point():
        return None if torch.equal(got, want) else "has other values"
    infinite = ~want.isfinite()
    same = infinite & ~want.isnan()  # infinities
    if not torch.equal(got.isnan(), want.isnan()) or not torch.equal(got[same], want[same]):
        return "is NaN or infinite elsewhere"
    error = (got.double() - want.double())[~infinite].abs().amax().item() if (~infinite).any() else 0.0
    largest = want.double()[~infinite].abs().amax().item() if error else 1.0
    bound = BOUND.get(want.dtype, BOUND[torch.bfloat16])
    if error <= bound * largest:
        return None
    return f"differs by {error / largest:.1e} of its largest number; {bound:.0e} are allowed"


def _difference(got, want) -> str | None:
    got, want = _tensors(got), _tensors(want)
    if len(got) != len(want):
        return f"has {len(got)} tensors, not {len(want)}"
    return next((reason for pair in zip(got, want) if (reason := _why_different(*pair)) is not None), None)


def _run(model, example):
    example = copy.deepcopy(example)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        if isinstance(example, dict):
            return model(**example)
        return model(*example) if isinstance(example, (tuple, list)) else model(example)


def _calls(model, skipped, example) -> dict:
    """(inputs, result) of the calls of a model's modules, by (name, which call). The model keeps the hooks."""
    names, inputs, calls = {m: name for name, m in python_modules(model).items()}, [], {}
    counts: Counter = Counter()

    def before(module, args, kwargs):
        inputs.append(copy.deepcopy(_tensors((args, kwargs))))

    def after(module, args, result):
        name = names[module]
        counts[name] += 1
        calls[name, counts[name]] = (inputs.pop(), copy.deepcopy(_tensors(result)))

    for module, name in names.items():
        if name not in skipped:
            module.register_forward_pre_hook(before, with_kwargs=True)
            module.register_forward_hook(after, always_call=True)
    _run(model, example)
    return calls


def check(model, optimized, example):
    """Raises RuntimeError if `optimized` differs from `model`, a copy in eval mode; then both keep hooks."""
    want = copy.deepcopy(_tensors(_run(copy.deepcopy(model), example)))
    reason = _difference(_run(copy.deepcopy(optimized), example), want)
    if reason is None:
        return
    fused = [(n, of) for n, m in optimized.named_modules() for of in vars(m).values() if isinstance(of, Fused)]
    # Hooks on children whose calls a Fused leaves out would have its method run as written.
    skipped = {f"{name}.{child}".removeprefix(".") for name, of in fused for child in of.left_out()}
    call_modules(model)  # whose fast paths fail where there are hooks
    originals, where = _calls(model, skipped, example), "the model"
    for call, (inputs, result) in _calls(optimized, skipped, example).items():
        if call in originals and _difference(inputs, originals[call][0]) is None:
            found = _difference(result, originals[call][1])
            if found is not None:
                kind = type(model.get_submodule(call[0])).__name__
                where, reason = f"{call[0] or 'the model'} ({kind})", found
                break
    raise RuntimeError(f"optimize: of the example the result of {where} {reason}: use the original, and report this")
