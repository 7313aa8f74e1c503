"""Recurrent layers of transformers' models on Fovea: gated delta rule, selective scans, causal convolution.

    fovea.transformers.set_recurrence_implementation(model, "fovea")          "eager" undoes it
    fovea.torch.optimize(model)                                               does it in its copy

The layers of all families call functions of their own file by a few names, of which transformers has one source each. Their calls
from layers that are served come here; _FUNCTIONS says what each becomes. A layer of which one source is another is left alone. Calls
that Fovea cannot compute, such as those that need gradients, run transformers' functions, with a FallbackWarning.
"""

import contextvars
import functools
import math
import sys

import torch

import fovea
from fovea.torch.packed_weight import PackedWeight
from fovea.transformers.counters import fall_back, fuse
from fovea.transformers.source import is_known, names_read

_PLAIN = (torch.Tensor, torch.nn.Parameter, PackedWeight)
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_layer: contextvars.ContextVar = contextvars.ContextVar("the served layer that is being computed", default=None)


def _vector(tensor):
    """Numbers of a layer, as Fovea takes them."""
    return None if tensor is None else (tensor.unpacked() if type(tensor) is PackedWeight else tensor).float()


def _delta_rule(query, key, value, g, beta, *, chunk_size=64, initial_state=None, output_final_state=False,
                use_qk_l2norm_in_kernel=False, **kwargs):  # fmt: skip
    state = None if initial_state is None else initial_state.float()
    norm = "rsqrt" if use_qk_l2norm_in_kernel else None
    after = state if key.shape[1] == 1 and output_final_state else None  # of one token, it is what the layer's cache copies there next
    out, state = fovea.gated_delta_rule(query, key, value, g, beta, norm=norm, state=state, state_out=after, layout="bthd")
    return out, state if output_final_state else None


# Without softplus, steps may be negative: transformers limits dt in a prompt of Mamba 2 alone.
_unlimited_scan = functools.partial(fovea.selective_scan, dt_min=-math.inf)


def _scan_1(hidden_states, dt, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False, **kwargs):
    x, dt, b, c, z = (t if t is None else t.transpose(1, 2)[:, None] for t in (hidden_states, dt, B, C, z))
    a, d, dt_bias = map(_vector, (A, D, delta_bias))
    out, state = _unlimited_scan(x, dt, a, b, c, d, z=z, dt_bias=dt_bias, dt_softplus=delta_softplus)
    out = out[:, 0].transpose(1, 2)
    return (out, state[:, 0]) if return_last_state else out


def _step_1(state, hidden_states, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, z=None, **kwargs):
    x, dt, b, c, z = (t if t is None else t[:, None, None] for t in (hidden_states, dt, B, C, z))
    a, d, dt_bias, state = _vector(A), _vector(D), _vector(dt_bias), state[:, None]
    return _unlimited_scan(
        x, dt, a, b, c, d, z=z, dt_bias=dt_bias, dt_softplus=dt_softplus, state=state, state_out=state
    )[0][:, 0, 0]  # fmt: skip


def _scan_2(hidden_states, dt, A, B, C, chunk_size, D=None, dt_bias=None, initial_states=None, dt_softplus=False,
            dt_limit=(0.0, float("inf")), return_final_states=False, **kwargs):  # fmt: skip
    a, d, dt_bias = map(_vector, (A, D, dt_bias))
    out, state = fovea.selective_scan(
        hidden_states, dt, a, B, C, d, dt_bias=dt_bias, dt_softplus=dt_softplus, dt_min=dt_limit[0], dt_max=dt_limit[1],
        state=initial_states, layout="bthd",
    )  # fmt: skip
    return (out, state) if return_final_states else out


def _is_repeated(tensor, axis):
    """Whether a tensor has one number from an axis on, as expand() leaves it."""
    return tensor is None or all(size == 1 or stride == 0 for size, stride in zip(tensor.shape[axis:], tensor.stride()[axis:]))


def _step_2(state, hidden_states, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, z=None, **kwargs):
    if not (_is_repeated(dt, 2) and all(_is_repeated(t, 1) for t in (A, D, dt_bias))):
        return NotImplemented
    x, b, c, z = (t if t is None else t[:, :, None] for t in (hidden_states, B, C, z))
    a, d, dt_bias = (t if t is None else t.flatten(1)[:, 0].float() for t in (A, D, dt_bias))
    return _unlimited_scan(
        x, dt[:, :, :1], a, b, c, d, z=z, dt_bias=dt_bias, dt_softplus=dt_softplus, state=state, state_out=state
    )[0][:, :, 0]  # fmt: skip


def _convolution(hidden_states, weight, bias=None, activation=None, **kwargs):
    weight, bias = _vector(weight), _vector(bias)
    return fovea.causal_conv(hidden_states, weight, bias, silu=activation is not None, channels_first=True)[0]


def _convolution_step(hidden_states, conv_state, weight, bias=None, activation=None):
    before = conv_state.shape[-1] - weight.shape[-1] + 1  # tokens in the state that no tap reaches
    if before < 0:
        return NotImplemented
    kept = torch.cat([conv_state, hidden_states], dim=-1)[..., -conv_state.shape[-1] :]
    out, _ = fovea.causal_conv(
        hidden_states, _vector(weight), _vector(bias), silu=activation is not None, channels_first=True, state=conv_state[..., before:]
    )  # fmt: skip
    conv_state.copy_(kept)
    return out


# Functions of the files of models, what they become, and SHA-256 of their sources, cut short. To add that of another version:
# read what changed, and run python/tests/transformers/test_recurrent_layers.py with it.
_FUNCTIONS = {
    "causal_conv1d_fn": (_convolution, "f932149bdf42"),
    "causal_conv1d_update": (_convolution_step, "bac68342342b"),
    "torch_chunk_gated_delta_rule": (_delta_rule, "a1bbf783aa65", "e4116a769851"),
    "torch_recurrent_gated_delta_rule": (_delta_rule, "4bd6ffbdddc0", "60d1b140670a"),
    "chunk_kimi_delta_attention": (_delta_rule, "1a4cae129dee"),
    "recurrent_kimi_delta_attention": (_delta_rule, "a7d81011bd15"),
    "mamba_selective_scan": (_scan_1, "b43a3221205e"),
    "mamba_selective_state_update": (_step_1, "1c7cf7fce076"),
    "mamba2_chunk_scan": (_scan_2, "8f4198702b90"),
    "mamba2_selective_state_update": (_step_2, "084055312cd5"),
}

_HOW = 'set_recurrence_implementation(model, "fovea") changes that'


def _unsuitable(values, kwargs):
    """None, or (reason, sentence) why a call runs as transformers computes it."""
    if any(kwargs.get(name) is not None for name in ("cu_seqlens", "seq_idx")):
        return "packed sequences", "sequences are packed in one row. Pad them"
    word = next((x for x in values if isinstance(x, str) and x not in ("silu", "swish")), None)
    if word is not None:
        return "activation", f"the activation after a convolution is {word}"
    tensors = [x for x in values if isinstance(x, torch.Tensor)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        return "gradients", "it is recorded for gradients. For inference, call the model under torch.inference_mode()"
    if torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() or torch.is_autocast_enabled("cpu"):
        return "kind of tensor", "a mode, transform or autocast is in use that Fovea does not see"
    for t in tensors:
        if type(t) not in _PLAIN or t.device.type != "cpu" or t.dtype not in _DTYPES:
            return "kind of tensor", f"a tensor is a {type(t).__name__} of {t.dtype} on {t.device}"
    return None


def _dispatch(name, theirs):
    """The function of a model's file that calls of served layers reach: Fovea's or theirs."""
    ours = _FUNCTIONS[name][0]

    @functools.wraps(theirs)
    def function(*args, **kwargs):
        layer = _layer.get()
        if layer is None or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return theirs(*args, **kwargs)
        reason = _unsuitable((*args, *kwargs.values()), kwargs)
        out = NotImplemented if reason else ours(*args, **kwargs)
        if out is NotImplemented:
            fall_back(layer, *(reason or ("shapes", f"{name} has tensors of other shapes")), what="a recurrence falls")
            return theirs(*args, **kwargs)
        fuse(layer)
        return out

    function.serves_layers = _layer
    return function


def functions_of(cls):
    """Names of the functions here that the code of a class of modules calls."""
    own = vars(sys.modules[cls.__module__])
    return {name for name in names_read(cls) & _FUNCTIONS.keys() if name in own}


@functools.cache
def _install(cls):
    """None, after the functions that a class calls were replaced in its file; or why they were not."""
    own, names = vars(sys.modules[cls.__module__]), functions_of(cls)
    for name in names:
        if not is_known(own[name], _FUNCTIONS[name][1:]):
            return f"the source of {name} is not one that Fovea knows"
    for name in names:
        if getattr(own[name], "serves_layers", None) is not _layer:
            own[name] = _dispatch(name, own[name])
    return None


def forward(module, *args, **kwargs):
    """The forward of a layer that is served."""
    _install(type(module))  # of a module that was unpickled
    token = _layer.set(module)
    try:
        return type(module).forward(module, *args, **kwargs)
    finally:
        _layer.reset(token)


forward.runs_class_forward = True  # type: ignore[attr-defined]


def is_served(module):
    return getattr(vars(module).get("forward"), "func", None) is forward


def layers(model):
    """[(name, module)]: the recurrent layers of a model."""
    found = {cls: bool(functions_of(cls)) for cls in {type(module) for module in model.modules()}}
    return [(name, module) for name, module in model.named_modules() if found[type(module)]]


def why_not(module):
    """None, or why a recurrent layer cannot be served."""
    return "it has a forward of its own" if "forward" in vars(module) and not is_served(module) else _install(type(module))


def set_recurrence_implementation(model, name):
    """Has the recurrent layers of a model run on Fovea ("fovea"), or as transformers computes them ("eager").

    Layers that cannot be served are left as they are: report(model) says why. Raises ValueError for another name.
    """
    if name not in ("fovea", "eager"):
        raise ValueError(f"the recurrences are 'fovea' or 'eager', not {name!r}")
    for _, module in layers(model):
        if name == "fovea" and why_not(module) is None:
            module.forward = functools.partial(forward, module)
        elif name == "eager" and is_served(module):
            del module.forward


def lines(model):
    """Those of report(): which recurrent layers run on Fovea."""
    found: dict = {}
    for _, module in layers(model):
        reason = None if is_served(module) else why_not(module)
        words = "run on Fovea" if is_served(module) else f"run on transformers' code: {reason or _HOW}"
        key = f"recurrent {type(module).__name__} {words}"
        found[key] = found.get(key, 0) + 1
    return [f"{count} {key}" for key, count in found.items()]
