"""PyTorch's own samples, of its OpInfo and ModuleInfo databases, with fovea.torch enabled: outputs and gradients against torch's in
float64, within the tolerances of these databases, or twice the error that torch has in float32. Calls that still go to torch are listed, by
reason, and must be torch's to the bit."""

import collections
import functools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from torch.utils import _pytree as pytree  # noqa: E402

import fovea.torch  # noqa: E402

OPS = ("scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu", "multi_head_attention_forward")
MODULES = ("nn.MultiheadAttention", "nn.TransformerEncoderLayer")


@functools.cache
def databases():
    """(ops, modules) by name. Their import takes seconds, which whoever collects tests alone does not need."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    ops = [info for info in op_db if "attention" in info.name and torch.float32 in info.dtypes]
    return {info.full_name.split(".")[-1]: info for info in ops}, {info.name: info for info in module_db}


# Reasons why Fovea leaves calls of these samples to torch, as counters() names them.
LEFT = {"3 dimensions", "dropout", "gradient of a case outside torch's fused kernel", "gradient of a mask", "gradient with weights"}
# Tolerances of float32, as these databases have them: (atol, rtol).
TOLERANCES = {"multi_head_attention_forward": (1e-4, 1e-4), "op": (5e-5, 5e-6), "module": (1e-5, 1.3e-6)}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Thousands of tiny calls: threads would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tensors_of(*trees):
    return [x for x in pytree.tree_leaves(trees) if isinstance(x, torch.Tensor) and x.is_floating_point()]


def outputs_and_gradients(call, leaves, gradients):
    """call()'s tensors, then the gradients of `leaves` under weights that tell elements apart."""
    torch.manual_seed(1)
    with torch.set_grad_enabled(gradients):
        outputs = tensors_of(call())
    if not gradients:
        return outputs
    loss = sum((x * torch.cos(torch.arange(x.numel()).view(x.shape))).sum() for x in outputs if x.requires_grad)
    return outputs + list(torch.autograd.grad(loss, leaves, allow_unused=True))


def compare(make, gradients, counts, tolerance):
    """make(dtype) gives (call, leaves); adds what fovea.torch counted."""
    call, leaves = make(torch.float32)
    with fovea.torch.enable():
        fovea.torch.reset_counters()
        found = outputs_and_gradients(call, leaves, gradients)
        numbers = fovea.torch.counters()
    for where in numbers:
        for what, number in numbers[where].items():
            counts[where, what.split(": ")[-1]] += number
    plain = outputs_and_gradients(*make(torch.float32), gradients)
    if not numbers["fovea"]:
        torch.testing.assert_close(found, plain, rtol=0, atol=0, equal_nan=True)
        return
    assert not any("dropout" in what for what in numbers["torch"])  # it draws other numbers in float64
    for got, torchs, exact in zip(found, plain, outputs_and_gradients(*make(torch.float64), gradients), strict=True):
        assert (got is None) == (exact is None)
        if got is not None:
            atol, rtol = tolerance
            atol += 2 * (torchs - exact).abs().nan_to_num(0.0, 0.0).max().item() if exact.numel() else 0.0
            torch.testing.assert_close(got.double(), exact, atol=atol, rtol=rtol, equal_nan=True)


def cast(tree, dtype):
    """The tree with floating-point tensors of this type: leaves of their own."""

    def one(x):
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            return x
        return x.detach().to(dtype, copy=True).requires_grad_(x.requires_grad)

    return pytree.tree_map(one, tree)


def with_and_without_weights(samples, kwargs_of):
    """Layers give weights by default, whose gradients are torch's: each sample again without."""
    for sample in samples:
        yield sample
        kwargs_of(sample)["need_weights"] = False
        yield sample


def check_counts(counts):
    reasons = {what for where, what in counts if where == "torch"}
    assert reasons <= LEFT
    assert sum(number for (where, _), number in counts.items() if where == "fovea") > 0


def test_databases():
    ops, modules = databases()
    assert set(OPS) == set(ops) and set(MODULES) <= set(modules)


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", OPS)
def test_op(name, gradients):
    info, counts = databases()[0][name], collections.Counter()
    # Those of sample_inputs(), and more if there are any.
    samples = info.reference_inputs("cpu", torch.float32, requires_grad=gradients)
    if name == "multi_head_attention_forward":
        samples = with_and_without_weights(samples, lambda sample: sample.kwargs)
    for sample in samples:

        def make(dtype, sample=sample):
            x, args, kwargs = cast((sample.input, sample.args, sample.kwargs), dtype)
            return lambda: info.op(x, *args, **kwargs), [t for t in tensors_of(x, args, kwargs) if t.requires_grad]

        compare(make, gradients, counts, TOLERANCES.get(name, TOLERANCES["op"]))
    if not (gradients and name == "multi_head_attention_forward"):  # all of those have dropout
        check_counts(counts)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", MODULES)
def test_module(name, gradients, training):
    info, counts = databases()[1][name], collections.Counter()
    inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=gradients, training=training)
    inputs = [sample for sample in inputs if sample.forward_input is not None]
    if name == "nn.MultiheadAttention":
        inputs = with_and_without_weights(inputs, lambda sample: sample.forward_input.kwargs)
    for sample in inputs:

        def make(dtype, sample=sample):
            torch.manual_seed(0)
            made = sample.constructor_input
            module = info.module_cls(*made.args, **made.kwargs).train(training).to(dtype)
            args, kwargs = cast((sample.forward_input.args, sample.forward_input.kwargs), dtype)
            leaves = [x for x in [*tensors_of(args, kwargs), *module.parameters()] if x.requires_grad]
            return lambda: module(*args, **kwargs), leaves

        compare(make, gradients, counts, TOLERANCES["module"])
    check_counts(counts)
