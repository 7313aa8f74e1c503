"""The operations between tokens and vectors, called from here only. All are the library's, so that bits are the same on every CPU, in every
batch, with any number of threads. out is written and returned; it may be the input where a comment says so."""

import numpy as np

import fovea


def linear(weight, bias=None, **options):
    return fovea.Linear(weight, bias, **options)


def attention(q, k, v, cu_seqlens, out, **options):
    """Heads [heads, tokens, channels] of packed sequences; out: [tokens, heads, channels]."""
    return fovea.attention(
        q, k, v, q_cu_seqlens=cu_seqlens, kv_cu_seqlens=cu_seqlens, layout="htd", out_layout="thd", out=out, **options
    )


def embedding_sum(tables, scale, out):
    """tables: pairs of [rows, channels] and the row of each token, None: row 0."""
    return fovea.embedding_sum([table for table, _ in tables], [ids for _, ids in tables], scale=scale, out=out)


def layer_norm(x, weight, bias, eps, out):  # out may be x, as in the next three
    return fovea.layer_norm(x, weight, bias, eps=eps, out=out)


def rms_norm(x, weight, eps, out):
    return fovea.rms_norm(x, weight, eps=eps, out=out)


def normalize(x, out):
    return fovea.normalize_rows(x, out=out)


def activate(x, activation, out, residual=None):
    return fovea.activate(x, activation, residual=residual, out=out)


def pool(x, begin, end, pooling, out, weights=None):
    return fovea.pool_tokens(x, begin, end, pooling, weights=weights, out=out)


def softmax(x):
    """The softmax of each row: the weights of a query 1 that sees the row's numbers as keys of one channel."""
    keys = x.reshape(x.shape[0], 1, x.shape[1], 1)
    ones = np.ones((x.shape[0], 1, 1, 1), np.float32)
    return fovea.attention(ones, keys, keys, scale=1.0, return_weights=True)[1].reshape(x.shape)


def dots(a, b):
    """The dot product of each row of a with that of b."""
    products = fovea.activate(a, up=b)
    return fovea.Linear(np.ones((1, a.shape[1]), np.float32))(products)[:, 0]
