"""Compares a model with its optimized copy: results, exceptions, written inputs, state, and what hooks saw.

Two models are run side by side, call by call. Where numbers differ by more than BOUND of the largest, the model in
float64 says whether the copy is worse than the model itself; with quantized weights, the model that rounds x as they do.
"""

import contextlib
import copy

import torch
from torch import nn

from fovea.torch.oracle import of_the_same_weights, oracle
from fovea.torch.packed_mha import MultiheadAttention
from module_parts import LOG, Result, log_class

BOUND = {torch.float32: 2e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 3e-3}
QUANTIZED = 2e-4  # with integers of x, each off by up to 2^-15 of the largest: added; beyond, the oracle says
LAYOUTS = [
    "plain",
    "plain",
    "plain",
    "transposed",
    "expanded",
    "strided",
    "negative bit",
    "parameter",
    "numpy",
    "special",
]


def _as_defined(layout):
    """oneDNN's gelu of infinity is NaN on CPUs with AVX-512: torch's own code is asked for special numbers."""
    return torch.backends.mkldnn.flags(enabled=False) if layout == "special" else contextlib.nullcontext()


def make_input(seed, shape, dtype, layout, wide):
    """The same tensor for the same arguments, and what it is a view of; `wide`: in float64, the same numbers."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator).to(dtype)
    x = x.double() if wide else x
    if layout == "transposed" and x.dim() > 1:
        base = x.transpose(0, -1).contiguous()
        return base.transpose(0, -1), base
    if layout == "expanded" and x.dim() > 1:
        base = x[:1].clone()
        return base.expand(shape), base
    if layout == "strided":
        base = torch.randn((*shape[:-1], 2 * shape[-1]), generator=generator).to(x.dtype)
        return base[..., ::2], base
    if layout == "negative bit":
        return torch._neg_view(x), x
    if layout == "parameter":
        x = nn.Parameter(x)
    elif layout == "special" and x.numel():
        for index, value in enumerate((float("inf"), float("nan"), 1e4)):
            x.view(-1)[5 * index % x.numel()] = value
    elif layout == "numpy" and x.dtype in (torch.float32, torch.float64):
        array = x.numpy().copy()
        return torch.from_numpy(array), torch.from_numpy(array)
    return x, x


def _flat(value):
    """The tensors and plain values in a result, in order, and its form."""
    if isinstance(value, torch.Tensor):
        return [value], "T"
    if isinstance(value, Result):
        value = (value.out, value.other)
    if isinstance(value, dict):
        flat = [_flat(v) for v in value.values()]
        return [
            t for ts, _ in flat for t in ts
        ], f"{{{', '.join(f'{k}: {form}' for k, (_, form) in zip(value, flat))}}}"
    if isinstance(value, (list, tuple)):
        flat = [_flat(v) for v in value]
        return [t for ts, _ in flat for t in ts], f"{type(value).__name__}({', '.join(form for _, form in flat)})"
    if isinstance(value, float):
        return [torch.tensor(value)], "float"
    return [], repr(value) if isinstance(value, (int, str, type(None))) else type(value).__name__


def _error(got, want):
    """The largest difference, as a share of the largest number; infinite where NaN or the shape differ."""
    if (
        got.shape != want.shape
        or got.device != want.device
        or got.dtype.is_floating_point != want.dtype.is_floating_point
    ):
        return float("inf")
    if not want.numel() or got.dtype is torch.bool:
        return float(not torch.equal(got, want))
    quick = float((got - want).abs().max() / want.abs().max().clamp(min=1e-3))
    if quick < float("inf"):
        return quick
    got, want = got.detach().double(), want.detach().double()
    same = (got == want) | (got.isnan() & want.isnan())
    if bool(same.all()):
        return 0.0
    difference = ((got - want).abs() / want[want.isfinite()].abs().max().clamp(min=1e-3))[~same]
    return float("inf") if bool(difference.isnan().any()) else float(difference.max())


def _state(model):
    """Buffers and what forward() keeps in plain attributes."""
    state = {}
    for path, module in model.named_modules():
        for name in ("table", "flag", "count", "scale", "seen", "last", "kept", "way"):
            if name in module.__dict__ or name in module._buffers:
                state[f"{path}.{name}"] = getattr(module, name)
    return state


class Outcome:
    """All that a call left behind."""

    def __init__(self, function, model, inputs, bases, any_hook):
        LOG.clear()
        torch.default_generator.manual_seed(1)  # of dropout; torch.manual_seed() is slow
        self.error = None
        handle = nn.modules.module.register_module_forward_hook(log_class) if any_hook else contextlib.nullcontext()
        try:
            with handle:
                result = function(model, *inputs)
        except Exception as error:
            result, self.error = None, error
        tensors, form = _flat(result)
        state, places = _state(model), [t.data_ptr() for t in bases]
        flat = [_flat(value) for value in state.values()]
        self.forms = {
            "result": form,
            "types": [t.dtype for t in tensors],
            "result is input": [next((i for i, x in enumerate(inputs) if t is x), None) for t in tensors],
            "result lies in input": [bool(t.numel()) and t.data_ptr() in places for t in tensors],
            "state": dict(zip(state, [form for _, form in flat])),
            "hooks": [(label, len(seen)) for label, seen in LOG],
        }
        self.values = [("result", t.detach().clone()) for t in tensors] + [("input", t.detach().clone()) for t in bases]
        self.values += [(f"state {name}", t.clone()) for name, (ts, _) in zip(state, flat) for t in ts]
        self.values += [(f"hook {label}", t) for label, ts in LOG for t in ts]


def compare(got, want, refusable=False, types=True):
    """(what differs or None, error, whether the copy refused). types=False: those of numbers may differ."""
    if got.error is not None or want.error is not None:
        if got.error is not None and refusable and "fovea" in str(got.error).lower():
            return None, 0.0, True
        if (got.error is None) is not (want.error is None):
            return f"raised {_short(got.error)}, not {_short(want.error)}", float("inf"), False
    if want.error is None:
        for name, form in want.forms.items():
            if got.forms[name] != form and (types or name != "types"):
                return f"{name}: {got.forms[name]}, not {form}", float("inf"), False
    errors = [(_error(g, w), name) for (name, g), (_, w) in zip(got.values, want.values)]
    if len(got.values) != len(want.values):
        return "other numbers of values", float("inf"), False
    error, name = max(errors, default=(0.0, ""))
    return f"{name} by {error:.2g}", error, False


def _short(error):
    return "nothing" if error is None else f"{type(error).__name__}({str(error)[:160]!r})"


def scenario(program, module, make_copy, quantized=None):
    """Yields (step, outcome of the copy, outcome of the model, whether the copy may refuse) for each call of both.
    quantized: a copy whose rounded weights both have; the copy itself, where None."""
    plan = torch.Generator().manual_seed(program.seed)
    pick = lambda n: int(torch.randint(n, (), generator=plan))  # noqa: E731
    with torch.no_grad():  # else the old weight_norm makes weights that torch cannot copy
        model = module.build()
        base = module.build() if program.own_weights else model  # weights that are written to are not shared
    if quantized is not None:
        of_the_same_weights(base, quantized)
    copied, double = make_copy(base)
    if program.weights:
        of_the_same_weights(model, copied if quantized is None else quantized)

    def both(step, function, shape, refusable):
        layout, seed, number = LAYOUTS[pick(len(LAYOUTS))], pick(1 << 30), 2
        # NaN of a masked key spreads in torch, and not in Fovea; NaN and infinity to all of a group's integers.
        if layout == "special" and ("mask=" in program.source or program.weights):
            layout = "plain"
        mode = [torch.no_grad, torch.inference_mode][pick(2)]
        without = program.needs_y and pick(3) == 0
        outcomes = []
        for m, wide in ((model, False), (copied, double)):
            made = [make_input(seed + i, shape, program.dtype, layout, wide) for i in range(number)]
            inputs, bases = [x for x, _ in made], [b for _, b in made]
            if function is module.direct:
                inputs = inputs[:1]
            elif without:
                inputs[1] = None
            with mode(), _as_defined(layout):
                outcomes.append(Outcome(function, m, inputs, bases, program.any_hook))
        return f"{step}, {tuple(shape)} {layout}, {mode.__name__}", outcomes[1], outcomes[0], refusable

    for i, shape in enumerate(program.shapes + program.shapes[:1]):
        yield both(f"call {i}", module.call, shape, False)
    yield both("direct", module.direct, program.shapes[0], False)
    yield both("call after direct", module.call, program.shapes[0], False)
    if not program.changes:
        return
    try:
        module.change(model)
    except Exception:  # such as a buffer that was made in inference mode, or a child that another change removed
        return
    try:
        module.change(copied)
    except Exception as error:
        if "fovea" not in str(error).lower():
            yield f"change: raised {_short(error)}", None, None, False
        return
    for i, shape in enumerate(program.shapes[:2]):
        yield both(f"call {i} after change", module.call, shape, True)


def _oracle(model, optimized):
    """A copy of `model` that computes as the quantized weights of `optimized` are defined."""
    quants = {}
    for packed in optimized.modules():
        if isinstance(packed, MultiheadAttention):
            quants[id(packed)] = {name: linear.quantization for name, linear in packed.packed_weights().items()}
        elif getattr(packed, "packed", None) is not None:
            quants[id(packed)] = packed.packed.quantization
    return oracle(copy.deepcopy(model), optimized, quants)


def differences(program, module, optimize):
    """The differences, as a list of sentences, empty if there is none, and the copy."""
    kept = []

    def optimized(model):
        kept.append(optimize(model))
        return kept[0], False

    found, suspects, refused = [], [], 0
    bound = BOUND[program.dtype] + (QUANTIZED if program.weights else 0.0)
    for step, got, want, refusable in scenario(program, module, optimized):
        if got is None:
            found.append(step)
            continue
        text, error, refuses = compare(got, want, refusable)
        refused += refuses
        if error == float("inf"):
            found.append(f"{step}: {text}")
        elif error > bound:
            suspects.append((step, text, error))
        if refuses:
            break
    if suspects and not found:
        with torch.no_grad():
            again = optimize(module.build()) if program.weights else None
        other = (lambda model: (_oracle(model, again), False)) if again else lambda model: (copy.deepcopy(model).double(), True)
        exact = scenario(program, module, other, again)
        own = {step: compare(got, want, types=False)[1] for step, got, want, _ in exact if got is not None}
        # Larger errors are no rounding: other dropout, or other ways through forward().
        own = max((e for e in own.values() if e < 50 * bound), default=0.0)
        found = [f"{step}: {text}" for step, text, error in suspects if error > 8 * own + bound]
    return found, kept[0], refused
