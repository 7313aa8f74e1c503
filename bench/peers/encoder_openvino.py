"""The sentence encoder by OpenVINO: BERT in the operators that a converted model has, and in the parts that layers share."""

import numpy as np

from encoder import EPSILON, HEADS, LAYERS, WIDTH, split_label
from forms import Form


def linear(op, x, w, b, constant=None):
    constant = constant or op.constant
    return op.add(op.matmul(x, constant(w), False, True), constant(b))


def heads(op, x, w, b, count, parts, mask=None, constant=None):
    """Attention between the tokens of x [batch, token, channel]; w [3 * channel, channel]. Queries, keys and values come
    from one product or from three (`parts`)."""
    width = w.shape[0] // 3
    split, joined = ([0, 0, count, width // count] if parts == 3 else [0, 0, 3, count, width // count]), [0, 0, width]
    if parts == 3:
        products = [linear(op, x, w[i * width : (i + 1) * width], b[i * width : (i + 1) * width], constant) for i in range(3)]
        q, k, v = (op.transpose(op.reshape(y, split, True), [0, 2, 1, 3]) for y in products)
    else:
        turned = op.transpose(op.reshape(linear(op, x, w, b, constant), split, True), [2, 0, 3, 1, 4])
        q, k, v = (op.gather(turned, i, 0) for i in range(3))
    attended = op.scaled_dot_product_attention(q, k, v, mask) if mask else op.scaled_dot_product_attention(q, k, v)
    return op.reshape(op.transpose(attended, [0, 2, 1, 3]), joined, True)


def norm(op, x, pair):
    return op.add(op.multiply(op.mvn(x, [-1], True, EPSILON, "inside_sqrt"), op.constant(pair[0])), op.constant(pair[1]))


def model(op, data, shape, masked, parts):
    """Returns (node, parameters) for ids of a shape; the parameters are ids, weights of the mean, and the mask if any."""
    w, (batch, tokens) = data.weights, shape
    ids, mean = op.parameter(shape, np.int32), op.parameter((batch, tokens, 1), np.float32)
    mask = op.parameter((batch, 1, 1, tokens), np.float32) if masked else None
    places = w["embeddings.position_embeddings.weight"][:tokens] + w["embeddings.token_type_embeddings.weight"][0]
    x = op.add(op.gather(op.constant(w["embeddings.word_embeddings.weight"]), ids, 0), op.constant(places[None]))
    x = norm(op, x, (w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"]))
    for i in range(LAYERS):
        layer = data.layer(i)
        attended = linear(op, heads(op, x, *layer["qkv"], HEADS, parts, mask), *layer["o"])
        x = norm(op, op.add(attended, x), layer["norm1"])
        inner = op.gelu(linear(op, x, *layer["inner"]), "erf")
        x = norm(op, op.add(linear(op, inner, *layer["outer"]), x), layer["norm2"])
    node = op.normalize_l2(op.reduce_sum(op.multiply(x, mean), 1), 1, 1e-12, "add")
    return node, [ids, mean] + ([mask] if masked else [])


def forms(engine, data):
    for parts in (1, 3):
        for count in data.splits():
            yield batches(engine, data, parts, count)


def batches(engine, data, parts, count):
    from openvino import opset13 as op

    requests, places = [], []
    for where, ids, lens in data.rectangles(count):
        valid = np.arange(ids.shape[1])[None] < lens[:, None]
        arrays = [ids, (valid / lens[:, None]).astype(np.float32)[:, :, None]]
        if not valid.all():
            arrays.append(np.where(valid, 0, -np.inf).astype(np.float32)[:, None, None])
        node, parameters = model(op, data, ids.shape, not valid.all(), parts)
        requests.append((engine.request(node, parameters, arrays), arrays))
        places.append(where)
    back = np.argsort(np.concatenate(places))

    def run():
        for request, _ in requests:
            request.infer()

    def output():
        return np.concatenate([request.get_output_tensor(0).data for request, _ in requests])[back]

    return Form(f"BERT, {parts} product{'s' * (parts > 1)} for Q, K, V" + split_label(count), run, output)
