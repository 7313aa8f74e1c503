"""The source text of two kinds of classes that optimize() can prove, each disturbed in at most one way.

straight(): a forward() without branches, of maps, activations and additions. attention(): q, k and v of one input at
the start of a forward() that branches later. module_source.py writes the wilder ones.
"""

import re

from module_vocabulary import WRITES, WRITING_ACTIVATIONS

# Lines of forward(); ACT( is an activation, a child or a function.
_PLAIN = [
    ("linear, activation", ["return ACT(self.lin(x))"]),
    ("feed-forward", ["return self.lin2(ACT(self.lin(x))) + x"]),
    ("feed-forward", ["h = ACT(self.lin(x))", "return x + self.drop(self.lin2(h))"]),
    ("activation and residual", ["return ACT(self.drop(self.lin(x))) + x"]),
    ("activation and residual", ["return F.dropout(ACT(self.lin(x)), 0.5, self.training) + x"]),
    ("residual", ["return torch.add(self.lin(x), x)"]),
    ("sum of linears", ["return self.drop(self.lin(x)) + ACT(self.lin2(x))"]),
    ("activation of an attribute", ["return self.function(self.lin(x)) + x"]),
    ("nn.Sequential", ["return self.seq(x) + x"]),
    ("residual of an argument", ["return ACT(self.lin(x)) + y"]),
    ("residual of an argument", ["return y + self.lin2(self.drop(ACT(self.lin(x))))"]),
    ("nn.MultiheadAttention", ["return self.mha(x, x, x)[0] + self.lin(x)"]),
]
_DISTURBED = [
    ("second user", ["h = self.lin(x)", "return ACT(h) + h"]),
    ("second user", ["h = self.lin(x)", "a = ACT(h)", "return self.lin2(a) + h"]),
    ("second user", ["a = ACT(self.lin(x))", "return self.lin2(a) + a"]),
    ("step between", ["h = self.lin(x)", "g = self.lin2(x)", "return ACT(g) + h"]),
    ("step between", ["h = self.lin(x)", "g = ACT(x)", "return ACT(h) * g"]),
    ("+= of a result", ["h = ACT(self.lin(x))", "h += x", "return h"]),
    ("+= of an alias", ["h = self.lin(x)", "g = h", "g += x", "return ACT(h)"]),
    ("+= of an argument", ["x += ACT(self.lin(x))", "return x"]),
    ("+= of an argument", ["h = x", "h += self.lin(x)", "return ACT(self.lin2(h))"]),
    ("activation in place", ["h = self.lin(x)", "a = self.write(h)", "return a + h"]),
    ("activation in place", ["return self.lin(self.write(x)) + x"]),
    ("activation in place", ["h = self.lin(x)", "return self.lin2(F.relu(x, inplace=True)) + x + ACT(h)"]),
    ("activation in place", ["h = self.lin(x)", "F.relu(h, inplace=True)", "return self.lin2(h) + x"]),
    ("dropout in training", ["return F.dropout(ACT(self.lin(x)), 0.5) + x"]),
    ("dropout in training", ["return self.lin2(ACT(F.dropout(self.lin(x))))"]),
    ("residual that broadcasts", ["return self.narrow(x) + x"]),
    ("shared linear", ["return self.lin(ACT(self.lin(x))) + x"]),
    ("subclass", ["return self.halved(self.lin(x)) + x"]),
    ("subclass", ["return ACT(self.halved_linear(x)) + x"]),
    ("tied parameter", ["self.own.data.mul_(0.9)", "return ACT(self.lin(x)) + x"]),
    ("tied weights", ["return ACT(self.lin(x)) + self.tied(x) * len(list(self.parameters()))"]),
    ("counter", ["self.count += 1", "return ACT(self.lin(x)) + x"]),
    ("method that writes", ["h = self.lin(x)", "self.helper(h)", "return ACT(h) + x"]),
    ("method that writes", ["h = self.helper(x)", "return ACT(self.lin(h)) + x"]),
]
_METHOD = ["", "    def helper(self, t):", "        t.mul_(0.5)", "        return t"]
_ARGUMENTS = ["x", "x", "x[:1]", "x + 1", "x.double()"]  # for y


def _class(name, init, arguments, methods, body, tag):
    return [f"class {name}(nn.Module):", "    def __init__(self):", "        super().__init__()",
            *(f"        {line}" for line in init), *methods, "",
            f"    def forward(self, {arguments}):", *(f"        {line}  # {tag}" for line in body), ""]  # fmt: skip


def straight(rng, name, width):
    """(lines of a class, argument for y or None)."""
    tag, body = rng.choice(_PLAIN if rng.random() < 0.5 else _DISTURBED)
    act = rng.choice(["nn.ReLU()", "nn.GELU()", "nn.GELU()", 'nn.GELU("tanh")'])
    call = rng.choice(["self.act(", "self.act(", "self.act(", "F.gelu(", "F.relu(", "torch.relu("])
    body = [line.replace("ACT(", call) for line in body]
    linear, drop = f"nn.Linear({width}, {width})", rng.choice(["nn.Dropout(0.5)", "nn.Identity()"])
    heads = f"nn.MultiheadAttention({width}, 2, batch_first=True)"
    made = {"lin": linear, "lin2": linear, "act": act, "drop": drop, "function": rng.choice(["F.gelu", "F.relu"]),
            "seq": f"nn.Sequential({linear}, {rng.choice([act, act, 'HalfGELU()', *WRITING_ACTIVATIONS])}, {drop})",
            "mha": heads, "write": rng.choice(WRITING_ACTIVATIONS), "narrow": f"nn.Linear({width}, 1)",
            "halved": rng.choice(["HalfGELU()", "HalfGELU()", "PlainGELU()"]),
            "halved_linear": f"HalfLinear({width}, {width})",
            "own": "self.lin.weight", "tied": linear, "count": "0"}  # fmt: skip
    used = {n for line in body for n in re.findall(r"self\.(\w+)", line)}
    init = [f"self.{n} = {text}" for n, text in made.items() if n in used]
    init += ["self.tied.weight = self.lin.weight"] if "tied" in used else []
    y = any("y" in re.findall(r"\w+", line) for line in body)
    methods = _METHOD if "helper" in used else []
    return _class(name, init, "x, y" if y else "x", methods, body, tag), rng.choice(_ARGUMENTS) if y else None


def attention(rng, name, width):
    """(lines of a class, None)."""
    maps = ["q", "k", "v"][: rng.choice((2, 3, 3))]
    form = rng.choice(["{0} = self.{1}(x)", "{0} = self.{1}(x).view(size).transpose(0, -2)",
                       "{0} = self.{1}(x).view(size)"])  # fmt: skip
    body = [[f"size = (*x.shape[:-1], self.heads, {width // 2})"]] if "size" in form else []
    calls = [[form.format(m, m)] for m in maps]
    tag, where = "maps of one input", rng.randint(1, len(maps) - 1)
    init = [f"self.{m} = nn.Linear({width}, {width})" for m in maps]
    between, roll = [], rng.random()
    if roll < 0.5:
        tag, lines = rng.choice(WRITES)
        between = [line.format(h="x", r="x") for line in lines]
    elif roll < 0.56:
        tag, between = "write: activation in place", ["self.write(x)"]
        init.append(f"self.write = {rng.choice(WRITING_ACTIVATIONS)}")
    elif roll < 0.62:
        tag, between = (
            "input rebound between maps",
            [rng.choice(["x = x * 0.5", "x = x.clone()", "x = q.reshape(x.shape)"])],
        )
    elif roll < 0.67:
        tag, calls[where] = "shared map", [form.format(maps[where], "q")]
    elif roll < 0.72:
        tag, between = "map of a map", [f"self.kept = self.{maps[where]}(q.reshape(x.shape))"]
    elif roll < 0.78:
        tag, between = "re-entrancy", ["if self.depth:", "    self.depth = 0",
                                       "    self.kept = self(q.reshape(x.shape))",
                                       "    self.depth = 1"]  # fmt: skip
    elif roll < 0.84:
        tag, calls[where] = "map in a branch", [f"{maps[where]} = q", "if self.flag:", f"    {calls[where][0]}"]
    elif roll < 0.9:
        tag, between = "SiLU between maps", ["q = self.silu(q)"]
        init.append("self.silu = nn.SiLU()")
    back = ".transpose(0, -2)" if "transpose" in form else ""
    body += [*calls[:where], between, *calls[where:], ["if self.flag:", "    q = q * 0.5"],
             ["for t in (k, q):", "    q = q + t * 0.5"],
             [f"return ({' + '.join(maps)}){back}.reshape(x.shape)"]]  # fmt: skip
    init += ["self.heads, self.depth, self.flag = 2, 1, True"]
    return _class(name, init, "x", _METHOD, [line for lines in body for line in lines], tag), None


def classes(rng, width):
    """Lines of some of these classes and of a Root that calls one after the other and returns all results."""
    lines, body = [], []
    for index in range(rng.randint(2, 4)):
        block, y = (straight if rng.random() < 0.65 else attention)(rng, f"Block{index}", width)
        lines += ["", *block]
        call = f"self.b{index}(x{f', {y}' if y else ''})"
        body.append(f"x{index} = x = {call}{'.to(x.dtype)' if y == 'x.double()' else ''}")
    results = [f"x{index}" for index in range(len(body))]
    init = [f"self.b{index} = Block{index}()" for index in range(len(body))]
    return [*lines, "", *_class("Root", init, "x", [], [*body, f"return {', '.join(results)}"], "result")]


OUTSIDE = [  # calls by the user of a parent with children q and k
    ["second = parent.k(x)", "return parent.q(x), second"],
    ["first = parent.q(x)", "x.data.mul_(0.5)", "return first, parent.k(x), parent(x)"],
    ["try:", "    parent.heads = 7", "    first = parent(x)", "except RuntimeError:", "    first = None",
     "parent.heads = 2", "x.data.mul_(0.5)", "return first, parent.k(x), parent(x)"],
    ["type(parent).helper = lambda self, t: (self.q(t), t.data.mul_(0.5), self.k(t))", "return parent.helper(x)"],
]  # fmt: skip
