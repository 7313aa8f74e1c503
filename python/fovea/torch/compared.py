"""optimize(model, example=...): the copy is compared with a plain copy of the model, module by module.

Both run on copies of the example with the same random numbers, without gradients: first alone, as the copy will run, then
with hooks that keep what each module took and gave. A result may differ by BOUND of the largest number of the original's.
"""

import contextlib
import copy

import torch

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


def _inner(module) -> set[str]:
    """The children whose calls a Fused of the module leaves out: hooks on them would have the method run as written."""
    return {name for of in vars(module).values() if isinstance(of, Fused) for name in of.left_out()}


@contextlib.contextmanager
def _recorded(model, names, calls):
    """While it is open, calls of the modules of these names are kept: {(name, which call): (inputs, result)}."""
    counts, handles, inputs = dict.fromkeys(names, 0), [], {}

    def before(name):
        def hook(module, args, kwargs):
            inputs.setdefault(name, []).append(copy.deepcopy(_tensors((args, kwargs))))

        return hook

    def after(name):
        def hook(module, args, result):
            counts[name] += 1
            calls[name, counts[name]] = (inputs[name].pop(), copy.deepcopy(_tensors(result)))

        return hook

    for name, module in model.named_modules():
        if name in names:
            handles.append(module.register_forward_pre_hook(before(name), with_kwargs=True))
            handles.append(module.register_forward_hook(after(name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _run(model, example):
    example = copy.deepcopy(example)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        if isinstance(example, dict):
            return model(**example)
        return model(*example) if isinstance(example, (tuple, list)) else model(example)


def check(model, optimized, example):
    """Raises RuntimeError if `optimized` differs from `model`, a copy in eval mode. Both may be changed."""
    want = copy.deepcopy(_tensors(_run(copy.deepcopy(model), example)))
    reason = _difference(_run(copy.deepcopy(optimized), example), want)
    if reason is None:
        return
    skipped = {f"{name}.{child}".removeprefix(".") for name, m in optimized.named_modules() for child in _inner(m)}
    names = {name for name, _ in optimized.named_modules()} - skipped
    originals, copies = {}, {}
    with _recorded(model, names, originals):
        _run(model, example)
    with _recorded(optimized, names, copies):
        _run(optimized, example)
    where, kinds = "the model", {name: type(module).__name__ for name, module in model.named_modules()}
    for call, (inputs, result) in copies.items():
        if call in originals and _difference(inputs, originals[call][0]) is None:
            found = _difference(result, originals[call][1])
            if found is not None:
                where, reason = f"{call[0] or 'the model'} ({kinds[call[0]]})", found
                break
    raise RuntimeError(f"optimize: of the example the result of {where} {reason}: use the original, and report this")
