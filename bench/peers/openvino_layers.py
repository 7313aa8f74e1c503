"""Parts of layers in OpenVINO's operators, as a converted model has them."""


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
