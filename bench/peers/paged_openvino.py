"""OpenVINO's paged attention, as its serving pipeline runs it on the CPU: a cache in blocks of 32 keys, into which each call writes the
new token. The operator is not public, and has no float16."""

import numpy as np

from forms import Form
from halves import widen

BLOCK = 32


def blocks(array):
    """[batch, head, token, channel] as [block, head, token of the block, channel], sequence after sequence."""
    batch, heads, tokens, channels = array.shape
    split = array.reshape(batch, heads, tokens // BLOCK, BLOCK, channels)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3, 4)).reshape(-1, heads, BLOCK, channels)


def form(engine, case, data):
    from openvino import op as internal
    from openvino import opset13 as op

    if case.dtype == "f16":
        return None
    ov, element, width = engine.ov, engine.type, case.groups * case.head_dim
    of_type = lambda shape, kind: op.parameter(ov.PartialShape(shape), kind)
    numbers = lambda *shape: op.constant(np.zeros(shape, np.float32))
    integers = lambda *shape: op.constant(np.zeros(shape, np.int32))
    cache = of_type([-1, case.groups, BLOCK, case.head_dim], element), of_type([-1, case.groups, BLOCK, case.head_dim], element)
    tokens = [of_type([-1, n], element) for n in (case.heads * case.head_dim, width, width)]
    lists = [of_type([-1], ov.Type.i32) for _ in range(4)]  # past lengths, ends of sequences, blocks, ends of their lists
    longest = of_type([], ov.Type.i32)
    scale = op.constant(np.float32(case.head_dim**-0.5))
    # No window, ALiBi, scores, rotation, sparse attention, sinks, eviction, token types, and bias.
    more = [integers(), integers(0), integers(0, 0), numbers(0, 0), numbers(0), integers(), integers(), numbers(0, case.heads, 1, 1),
            integers(), *(integers(0) for _ in range(4)), op.constant(np.zeros(0, np.uint8)), integers(0)]
    inputs = [*tokens, *cache, *lists, scale, integers(), numbers(0), longest, *more]
    node = internal._PagedAttentionExtension([one.output(0) for one in inputs])
    for name, value in (("num_k_heads", case.groups), ("k_head_size", case.head_dim)):
        node.get_rt_info()[name] = node.get_rt_info()[name.replace("k_", "v_")] = value
    last = lambda array: np.ascontiguousarray(array[:, :, -1]).reshape(case.batch, -1)
    each = case.kv_len // BLOCK
    ends = np.arange(case.batch + 1, dtype=np.int32)
    arrays = [*(engine.of(a) for a in (data.q.reshape(case.batch, -1), last(data.k), last(data.v), blocks(data.k), blocks(data.v))),
              np.full(case.batch, case.kv_len - 1, np.int32), ends, np.arange(case.batch * each, dtype=np.int32), ends * np.int32(each),
              np.array(case.kv_len, np.int32)]
    request = engine.request(node, [*tokens, *cache, *lists, longest], arrays, {"KV_CACHE_PRECISION": element})
    return Form("PagedAttention", lambda: (request.infer(), arrays)[0], lambda: engine.read(request).reshape(data.q.shape))
