"""fovea::attention, the operation that torch's compilers and autograd know, and the function that picks it when needed.

    fovea::attention(q, k, v, ...) -> (out, lse)

torch.compile keeps the operation as one node of the graph: it is defined, implemented for the CPU, and described for
tensors without data. Its gradient is in autograd.py. A call that needs neither goes to fovea.attention() directly,
which costs a microsecond instead of ten.
"""

import functools

import torch
from torch import _C
from torch.overrides import handle_torch_function, has_torch_function

import fovea
from fovea._core import attention_recorded

from . import autograd
from .autograd import DEFAULTS, TENSORS
from .types import FLOATS, arithmetic, plain

_OPTIONS = (
    "str causal='none', int[]? window=None, float? scale=None, float? softcap=None, str? relative=None,"
    " int[] relative_numbers=[], str layout='bhtd', str? out_layout=None, str? arithmetic=None"
)
_INPUTS = "Tensor q, Tensor k, Tensor v, " + "".join(f"Tensor? {name}=None, " for name in TENSORS)


def _attention_cpu(*inputs, **options):
    options = DEFAULTS | options | dict(zip(autograd.INPUTS, inputs))
    options["relative"] = autograd.relative(options, options.pop("table", None))
    options.update(autograd.causal_of(options["causal"], options.get("q_offsets")), return_lse=True)
    options["window"] = options["window"] and tuple(options["window"])
    options["arithmetic"] = options["arithmetic"] or arithmetic(inputs[0].dtype)
    del options["relative_numbers"]
    return attention_recorded(options.pop("q"), options.pop("k"), options.pop("v"), **options)


def _attention_fake(q, k, v, *_, layout="bhtd", out_layout=None, **__):
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != len(layout):
            raise ValueError(f"{name} has {x.dim()} dimensions, layout '{layout}' has {len(layout)}")
    sizes = dict(zip(layout, q.shape)) | {"d": v.shape[-1]}
    lse = q.new_empty([sizes[axis] for axis in "bht" if axis in sizes], dtype=torch.float32)
    return q.new_empty([sizes[axis] for axis in out_layout or layout]), lse


def _map(info, in_dims, *tensors, **options):
    return autograd.one_by_one(functools.partial(torch.ops.fovea.attention, **options), info, in_dims, tensors)


def _define():
    global _library
    _library = library = torch.library.Library("fovea", "DEF")
    library.define(f"attention({_INPUTS}*, {_OPTIONS}) -> (Tensor out, Tensor lse)")
    library.define(
        f"attention_backward(Tensor? grad_out, Tensor? grad_lse, Tensor out, Tensor lse, {_INPUTS}*, int[] wanted,"
        f" {_OPTIONS}) -> Tensor[]"
    )
    library.impl("attention", _attention_cpu, "CPU")
    library.impl("attention", autograd.attention_autograd, "Autograd")
    library.impl("attention_backward", autograd.backward_cpu, "CPU")
    torch.library.register_fake("fovea::attention", _attention_fake, lib=library)
    torch.library.register_fake("fovea::attention_backward", autograd.backward_fake, lib=library)
    torch.library.register_vmap("fovea::attention", _map, lib=library)


# Where this module is imported again the operations stay: graphs may hold them.
if not hasattr(torch.ops.fovea, "attention"):
    _define()

_OUTPUTS = ("out", "return_weights", "return_scores", "score_heads", "score_queries", "score_keys", "return_summary",
            "top_keys")  # fmt: skip


def _boolean(mask, q_len, kv_len):
    """A fovea.Mask as a tensor [B or 1, H or 1, T_q, T_k]: where a query of zeros gives weight."""
    if torch.compiler.is_compiling() or not plain():
        raise NotImplementedError("fovea.torch.attention: a fovea.Mask has no place in graphs: pass its boolean tensor")
    q, k = (torch.zeros(mask.batch, mask.q_heads, n, 1, dtype=torch.float32, device="cpu") for n in (q_len, kv_len))
    return attention_recorded(q, k, k, mask=mask, return_scores="biased")[1] == 0


def _to_op(q, k, options):
    """(TENSORS, options) as the operation takes them: a list of tensors and None, a dict of words and numbers."""
    for name in set(options).difference(_OUTPUTS, TENSORS, DEFAULTS):
        fovea.attention(q, k, k, **{name: None})  # raises, with a hint where there is one
    options = {name: value for name, value in options.items() if value is not None}
    for name in [name for name in options if name not in (*TENSORS, *DEFAULTS)]:
        if options.pop(name) is not False:
            raise NotImplementedError(
                f"fovea.torch.attention: {name} has no gradient and no place in graphs: call it under torch.no_grad(),"
                " outside torch.compile and torch.func"
            )
    causal, relative, mask = options.pop("causal", False), options.pop("relative", None), options.get("mask")
    layout = options.get("layout", "bhtd")
    if isinstance(mask, fovea.Mask):
        options["mask"] = _boolean(mask, *(x.shape[layout.find("t")] for x in (q, k)))
    if relative is not None:
        if not isinstance(relative, fovea.Relative):
            raise TypeError("relative must be a fovea.Relative: Relative.t5(...), .toeplitz(...) or .window_2d(...)")
        options.update(relative=relative.kind, table=relative.table)
        options["relative_numbers"] = list(relative.parameters.values())
    if isinstance(causal, (int, torch.SymInt)) and not isinstance(causal, bool):
        # Sizes are symbols to compilers, and tensors to torch.jit.trace.
        causal = torch.full((1,), causal, dtype=torch.int64, device="cpu")
    if isinstance(causal, str):
        options["causal"] = causal
    elif str(getattr(causal, "dtype", type(causal).__name__)) in ("bool", "torch.bool"):  # numpy's and torch's, too
        options["causal"] = "true" if causal else "none"
    elif "q_offsets" in options:
        raise ValueError("causal has offsets already: leave q_offsets out")
    else:
        options.update(causal="offset", q_offsets=causal.reshape(-1) if isinstance(causal, torch.Tensor) else causal)
    if "window" in options:
        options["window"] = [-1 if side is None else side for side in options["window"]]
    return [_tensor(name, options.pop(name, None)) for name in TENSORS], DEFAULTS | options


def _tensor(name, x):
    is_list = isinstance(x, (list, tuple))
    if x is None or isinstance(x, torch.Tensor) or (is_list and name in TENSORS[:5]):
        return x
    return torch.as_tensor(x, dtype=torch.int64 if is_list and not x else None, device="cpu")


def _say(q, k, v, options):
    """The error of a call, in the words of fovea.attention(), not of torch's operation."""
    try:
        with torch.no_grad():
            fovea.attention(q, k, v, **options)
    except Exception as error:
        raise error from None


def _record(q, k, v, options):
    """(out, lse) by the operation."""
    for x in (q, k, v):
        if not isinstance(x, torch.Tensor) or x.layout is not torch.strided or x.is_nested or x.is_quantized:
            _say(q, k, v, options)
    tensors, options = _to_op(q, k, options)
    if not _C._are_functorch_transforms_active():
        return torch.ops.fovea.attention(q, k, v, *tensors, **options)
    autograd.refuse_tangents(q, k, v, *tensors)
    return autograd.Attention.apply(options, q, k, v, *tensors)


def attention(q, k, v, *, return_lse=False, **options):
    """fovea.attention() for torch tensors on the CPU, with gradients, and whole in torch's graphs.

    Takes the arguments of fovea.attention(), and returns out, or (out, lse) with return_lse. Where neither a gradient
    nor a graph is wanted the call is fovea.attention() itself, with all of its outputs.

    Gradients: of q, k, v, bias, sinks, alibi and the table of a fovea.Relative, through out and lse, with every option.
    torch's own backward kernel runs for causal and padded calls and for a mask or bias without a gradient; else the
    weights are computed again, a block of rows at a time, in float32. There is no second derivative and no forward
    mode: both raise NotImplementedError.

    Graphs: torch.compile(fullgraph=True), torch.export, torch.jit.trace, torch.fx and make_fx keep the call as a node
    fovea::attention. Tensors of lengths, starts, offsets and cu_seqlens are inputs of that node; lists are constants. A
    program that loads it must `import fovea.torch` before. torch.jit.script takes torch.ops.fovea.attention alone.

    torch.func: grad, vjp, jacrev and vmap in any order; vmap makes a call for each entry of the mapped axis.

    torch.autocast: q, k and v become the type of autocast, as for torch's scaled_dot_product_attention.
    """
    arrays = (q, k, v, *options.values())
    if has_torch_function(arrays):
        return handle_torch_function(attention, arrays, q, k, v, return_lse=return_lse, **options)
    if torch.is_autocast_enabled("cpu"):
        to = torch.get_autocast_dtype("cpu")
        q, k, v = (x.to(to) if getattr(x, "dtype", None) in FLOATS else x for x in (q, k, v))
    wanted = False
    if torch.is_grad_enabled():
        for x in arrays if "relative" not in options else (*arrays, getattr(options["relative"], "table", None)):
            wanted = wanted or (isinstance(x, torch.Tensor) and x.requires_grad)
    if torch.compiler.is_compiling() or not plain(q):
        out, lse = _record(q, k, v, options)
    elif not wanted:
        options.setdefault("arithmetic", arithmetic(q.dtype))
        return fovea.attention(q, k, v, return_lse=return_lse, **options)
    else:
        try:
            out, lse = _record(q, k, v, options)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            if not isinstance(error, NotImplementedError):
                _say(q, k, v, options)
            raise
    return (out, lse) if return_lse else out
