"""Modules with maps that are one product in a copy by optimize(), and how often that is computed."""

import torch
from optimized import close
from torch import nn


class Heads(nn.Module):
    """Maps as attention has them, before code that branches."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 16)
        self.act, self.scale, self.stop = nn.SiLU(), 0.5, False

    def forward(self, x):
        shape = (*x.shape[:-1], -1, 4)
        q = self.q(x).view(shape).transpose(1, 2) * self.scale
        k = self.k(x).view(*shape).transpose(1, 2)
        v = self.v(x).reshape(x.shape[0], -1, 2, 4).transpose(1, 2)
        if self.stop:
            return q
        y = torch.cat([k, v], 1).transpose(1, 2).flatten(2)
        return q.transpose(1, 2).flatten(2) + self.o(y)


class Gated(Heads):
    def forward(self, x):
        return self.act(self.k(x)) * self.v(x)


class Writes(nn.SiLU):
    def forward(self, x):
        self.of[0].mul_(2)
        return super().forward(x)


def products(model):
    """The products of a model, each with a list that gets an entry when it is computed."""
    found = {id(m._product): (m._product, []) for m in model.modules() if getattr(m, "_product", None) is not None}
    for product, computed in found.values():
        bound = product._bound or product._bind()
        execute = bound[0]
        if execute is not None:
            product._bound = (lambda x, e=execute, c=computed: c.append(1) or e(x), *bound[1:])
    return list(found.values())


def check(model, fast, merged=None, x=None):
    """Compares a copy with its model. merged: how many products it computes."""
    x = torch.randn(2, 3, 16) if x is None else x
    counted = products(fast)
    with torch.no_grad():
        close(fast(x.clone()), model(x.clone()))
    if merged is not None:
        assert sum(len(computed) for _, computed in counted) == merged
