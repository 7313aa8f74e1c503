"""The source text of a random class of nn.Module, with a forward() as users write it.

Each line ends with a comment that names its construct, so that a line which makes a copy differ tells what it is.
Tensors of a forward() have one width and the same leading axes, so that any can be added to any other. Values stay
small: what differs is then no rounding.
"""

from module_vocabulary import (
    ACTIVATIONS,
    CONDITIONS,
    FUNCTIONS,
    READS,
    STRAIGHT_WRITES,
    VIEWS,
    WRITES,
    WRITING_ACTIVATIONS,
    WRITING_FUNCTIONS,
)


class Class:
    """One class. `straight`: its forward() has only calls of modules and sums, which a tracer can follow."""

    def __init__(self, rng, name, width, blocks, straight, optional):
        self.rng, self.name, self.width, self.straight, self.optional = rng, name, width, straight, optional
        self.blocks = blocks  # [(name of a class, how many tensors it takes)]
        self.children: list = []  # (attribute, kind, expression that makes it)
        self.init, self.body, self.names = [], [], ["x"]
        self.indent, self.tag, self.counter = 2, "", 0

    # Names and lines

    def line(self, text, tag=None):
        self.body.append(f"{'    ' * self.indent}{text}  # {tag or self.tag}")

    def var(self):
        return self.rng.choice(self.names[-3:] if self.rng.random() < 0.7 else self.names)

    def fresh(self):
        self.counter += 1
        return f"h{self.counter}"

    def child(self, kind, text):
        self.counter += 1
        name = f"m{self.counter}"
        self.init.append(f"        self.{name} = {text}")
        self.children.append((name, kind))
        return f"self.{name}"

    def reuse(self, kind, chance):
        same = [name for name, k in self.children if k == kind]
        return f"self.{self.rng.choice(same)}" if same and self.rng.random() < chance else None

    def fc(self, inner=None, outer=None):
        inner, outer = inner or self.width, outer or self.width
        kind, roll = ("linear", inner, outer), self.rng.random() * (0.9 if self.straight else 1)
        old = self.reuse(kind, 0.12)
        if old is not None:
            return old if roll < 0.6 else self.child(kind, old)  # one module, or another name of it
        bias = "" if self.rng.random() < 0.8 else ", bias=False"
        plain = f"nn.Linear({inner}, {outer}{bias})"
        if roll < 0.86:
            return self.child(kind, plain)
        special = self.rng.choice(
            [f"HalfLinear({inner}, {outer}{bias})", f"CalledLinear({inner}, {outer}{bias})", f'Lora({plain}, "add")',
             f'Lora({plain}, "in place")', f'Lora({plain}, "weight")', f"parametrizations.weight_norm({plain})",
             f"parametrizations.spectral_norm({plain})", f"old_weight_norm({plain})", f"Wrapped({plain})",
             f'parametrize.register_parametrization({plain}, "weight", Double())', f"nn.Sequential({plain})"]
        )  # fmt: skip
        return self.child(("special", special.split("(")[0]), special)

    def marked(self, attribute):
        """A linear map with an attribute of its own."""
        fc = self.fc()
        self.init.append(f"        {fc}.{attribute}")
        return fc

    def plain(self):
        """Puts a linear map into a list that nn.Module does not see."""
        self.init.append(f"        self.plain = [{self.fc()}]")
        return True

    def act(self, argument, writing=None):
        """An activation of an expression: a module or a function, in place or not."""
        if writing is None:
            writing = self.rng.random() < (0.15 if self.straight else 0.35)
        if self.rng.random() < (0.1 if self.straight and writing else 0.35):
            functions = WRITING_FUNCTIONS if writing else FUNCTIONS
            if self.straight:
                functions = functions[:2]
            return self.rng.choice(functions).format(argument)
        kind = "writing" if writing else "activation"
        old = self.reuse(kind, 0.3)
        return (
            f"{old or self.child(kind, self.rng.choice(WRITING_ACTIVATIONS if writing else ACTIVATIONS))}({argument})"
        )

    def norm(self):
        w = self.width
        kinds = [
            f"nn.LayerNorm({w}, eps=0.1)",
            f"nn.RMSNorm({w}, eps=0.1)",
            f"nn.LayerNorm({w}, eps=0.1, elementwise_affine=False)",
        ]
        return self.child("norm", self.rng.choice(kinds))

    def block(self):
        name, takes = self.rng.choice(self.blocks)
        block = self.reuse(name, 0.25) or self.child(name, f"{name}()")
        return f"{block}({self.var()}{f', {self.var()}' if takes == 2 else ''})"

    # Expressions: (chance, construct, whether a tracer follows it, function)

    def expressions(self):
        v, fc, act, rng, w = self.var, self.fc, self.act, self.rng, self.width
        h, hidden = v(), rng.choice((4, 7, 12, 33))
        many = [
            (3, "linear", 1, lambda: f"{fc()}({h})"),
            (5, "linear, activation", 1, lambda: act(f"{fc()}({h})")),
            (3, "two linears", 1, lambda: f"{fc(hidden, w)}({act(f'{fc(w, hidden)}({h})')})"),
            (2, "norm", 1, lambda: f"{self.norm()}({h})"),
            (3, "activation", 1, lambda: act(h)),
            (3, "residual", 1, lambda: f"{h} + {fc()}({v()})" if rng.random() < 0.5 else f"{fc()}({h}) + {v()}"),
            (3, "pre-activation residual", 1, lambda: f"{fc()}({act(h)}) + {h}"),
            (2, "pre-activation residual", 1, lambda: f"{h} + {fc()}({act(h)})"),
            (2, "activation of residual", 1, lambda: act(f"{fc()}({h}) + {v()}")),
            (1, "two activations of one linear", 1, lambda: f"{act(h)} + {act(h)}"),
            (1, "sum of linears", 1, lambda: f"{fc()}({h}) + {fc()}({act(h)})"),
            (1, "product", 1, lambda: f"{fc()}({h}) * {act(h)}"),
            (3, "gate", 1, lambda: f"{fc(hidden, w)}({act(f'{fc(w, hidden)}({h})')} * {fc(w, hidden)}({h}))"),
            (1, "gate after write", 1, lambda: f"{fc()}({fc()}({h}) * {fc()}({act(h, True)}))"),
            (1, "residual that broadcasts", 0, lambda: f"{fc()}({h}) + {v()}[..., :1]"),
            (1, "residual that broadcasts", 0, lambda: f"{fc()}({h}[:1]) + {v()}"),
            (1, "scaled addition", 0, lambda: f"torch.add({h}, {fc()}({v()}), alpha=0.5)"),
            (1, "addition in place", 0, lambda: f"{fc()}({h}).add_({v()})"),
            (2, "write between operands", 0, lambda: f"{fc()}({h}) + {fc()}({h}.mul_(0.5))"),
            (3, "weight read", 0, lambda: rng.choice(READS).format(h=h, fc=fc())),
            (2, "alias or view", 0, lambda: rng.choice(VIEWS).format(h=h)),
            (1, "concatenation", 0, lambda: f"{fc(2 * w, w)}(torch.cat([{h}, {v()}], -1))"),
            (1, "list of maps", 0, lambda: f"sum(m({h}) for m in ({fc()}, {fc()}))"),
            (1, "module by name", 0, lambda: f"getattr(self, '{fc()[5:]}')({h})"),
            (1, "keyword of a linear", 0, lambda: f"{fc()}(input={h})"),
            (1, "attribute of a linear", 0, lambda: f"{self.marked('gain = 0.5')}.gain * {h}"),
            (1, "list that is no child", 0, lambda: f"self.plain[0]({h})" if self.plain() else h),
            (1, "attribute", 0, lambda: f"{h} * self.scale"),
            (1, "buffer", 0, lambda: f"{h} + self.table"),
            (1, "where", 0, lambda: f"torch.where({h} > 0, {h}, {h} * 0.5)"),
            (2, "nn.MultiheadAttention", 0, self.attention),
            (1, "nn.TransformerEncoderLayer", 0, self.encoder),
            (3, "nn.Sequential", 1, lambda: f"{self.sequential()}({h})"),
            (1, "item of nn.Sequential", 0, lambda: f"{self.sequential()}[0]({h})"),
            (4 if self.blocks else 0, "block", 1, self.block),
        ]  # fmt: skip
        _, tag, _, make = rng.choices(many, [m[0] if m[2] or not self.straight else 0 for m in many])[0]
        self.tag = tag
        return make()

    def attention(self):
        first = self.rng.random() < 0.5
        kind = self.child("mha", f"nn.MultiheadAttention({self.width}, 2, batch_first={first})")
        h = self.var()
        options = self.rng.choice(
            [
                "",
                ", need_weights=False",
                f", attn_mask=causal({h}, {first})",
                f", key_padding_mask=padding({h}, {first})",
            ]
        )
        return f"{kind}({h}, {h if 'mask' in options else self.rng.choice([h, self.var()])}, {h}{options})[0]"

    def encoder(self):
        act = self.rng.choice(['"relu"', '"gelu"', "F.silu", "nn.ReLU(inplace=True)", "nn.GELU()", "HalfGELU()"])
        options = f"{self.width}, 2, 12, activation={act}, batch_first=True, norm_first={self.rng.random() < 0.5}"
        h = self.var()
        if self.rng.random() < 0.25:
            return f"{self.child('encoder', f'nn.TransformerDecoderLayer({options})')}({h}, {self.var()})"
        mask = self.rng.choice(["", f", src_mask=causal({h}, True)", f", src_key_padding_mask=padding({h}, True)"])
        return f"{self.child('encoder', f'nn.TransformerEncoderLayer({options})')}({h}{mask})"

    def sequential(self):
        w, rng = self.width, self.rng
        parts = []
        for _ in range(rng.randint(1, 4)):
            parts += rng.choice(
                [
                    [f"nn.Linear({w}, {w})"],
                    [f"nn.Linear({w}, {w})", rng.choice(ACTIVATIONS)],
                    [f"nn.Linear({w}, {w})", rng.choice(WRITING_ACTIVATIONS)],
                    [rng.choice(WRITING_ACTIVATIONS)],
                    [f"nn.Linear({w}, 9)", rng.choice(ACTIVATIONS), f"nn.Linear(9, {w})"],
                    [f"nn.LayerNorm({w}, eps=0.1)"],
                ]
            )
        kind = rng.choices(["nn.Sequential", "Skip", "BackwardSequential"], [6, 1, 0.3])[0]
        if kind == "BackwardSequential":
            parts = [p for p in parts if "9" not in p] or [f"nn.Linear({w}, {w})"]
        return self.child("sequential", f"{kind}({', '.join(parts)})")

    # Statements

    def assign(self):
        expression, roll = self.expressions(), self.rng.random()
        if roll < 0.65:
            name = self.fresh()
            self.line(f"{name} = {expression}")
            self.names.append(name)
        elif roll < 0.9 or self.straight:
            self.line(f"{self.rng.choice(self.names)} = {expression}")
        elif roll < 0.95:
            self.line(f"{self.rng.choice(self.names)} += {expression}")
        else:
            self.line(f"{self.rng.choice(self.names)}[...] = {expression}")

    def write(self, name=None):
        h = name or self.var()
        if self.rng.random() < (0.9 if self.straight else 0.3):
            self.line(self.act(h, True), "write: activation in place")
            return
        tag, lines = self.rng.choice(STRAIGHT_WRITES if self.straight else WRITES)
        for text in lines:
            self.line(text.format(h=h, r=self.var()), tag)

    def maps_of_one_input(self):
        """Projections of one tensor, which may change between them."""
        h, w, rng = self.var(), self.width, self.rng
        names, maps = [self.fresh() for _ in range(rng.randint(2, 3))], []
        while len(maps) < len(names):
            new = self.fc(w, w)
            if new not in maps:
                maps.append(new)
        calls = [f"{name} = {m}({h})" for name, m in zip(names, maps)]
        form, tag = rng.random(), "maps of one input"
        if form < 0.15:
            self.line(f"{', '.join(names)} = {', '.join(f'{m}({h})' for m in maps)}", tag)
        elif form < 0.3 and not self.straight:
            write = rng.choice(["{h}.mul_(0.5)", "{h}[0] = 0", "torch.relu_({h})", "self.helper({h})"]).format(h=h)
            self.line("; ".join([calls[0], write, *calls[1:]]), "write on the line of maps")
        elif form < 0.4 and not self.straight:
            self.line(calls[0], tag)
            self.line("if self.flag:", "map in a branch")
            for call in calls[1:]:
                self.line("    " + call, "map in a branch")
            self.line("else:", "map in a branch")
            self.line(f"    {' = '.join(names[1:])} = {h}", "map in a branch")
        else:
            for i, call in enumerate(calls):
                if i and rng.random() < 0.45:
                    self.write(h)
                elif i and rng.random() < 0.15:
                    self.line(f"{h} = {h} * 0.5", "input rebound between maps")
                self.line(call, tag)
        result = self.fresh()
        self.line(f"{result} = {' + '.join(names)}", tag)
        self.names += [rng.choice(names), result]

    def linear_and_write(self):
        """A linear map whose input, result or residual changes before all is used."""
        h, r, y, rng = self.var(), self.var(), self.fresh(), self.rng
        self.line(f"{y} = {self.fc()}({h})", "linear before a write")
        extra = rng.choice(["", "", "view", "kept"]) if not self.straight else ""
        if extra == "view":
            self.line(f"{y}v = {y}[..., :1]", "view of a linear's result")
        elif extra == "kept":
            self.line(f"self.last = {y}", "result of a linear kept")
        self.write(rng.choice([h, r, y]))
        z = self.fresh()
        self.line(
            f"{z} = {rng.choice([self.act(y), f'{y} + {r}', f'{r} + {y}', self.act(f'{y} + {r}')])}",
            "use after a write",
        )
        if extra == "view":
            self.line(f"{z} = {z} + {y}v", "view of a linear's result")
        elif extra == "kept":
            self.line(f"{z} = {z} + self.last", "result of a linear kept")
        self.names.append(z)

    def branch(self):
        tag, text = self.rng.choice([c for c in CONDITIONS if self.optional or c[0] != "if: None"])
        self.line(f"if {text.format(h=self.var(), fc=self.fc())}:", tag)
        for part in range(self.rng.randint(1, 2)):
            names = list(self.names)
            self.indent += 1
            if part:
                self.indent -= 1
                self.line("else:", tag)
                self.indent += 1
            for _ in range(self.rng.randint(1, 2)):
                self.statement(simple=True)
            self.indent -= 1
            self.names = names

    def loop(self):
        w, h, rng = self.width, self.fresh(), self.rng
        n = rng.randint(2, 3)
        self.line(f"{h} = {self.var()}", "alias")
        blocks = [name for name, takes in self.blocks if takes == 1]
        kind = rng.choice(["list", "zip", "range", "dict", "children", *(["blocks"] if blocks else [])])
        tag = f"loop: {kind}"
        if kind == "list":
            maps = self.child("list", f"nn.ModuleList([nn.Linear({w}, {w}) for _ in range({n})])")
            self.line(f"for layer in {maps}:", tag)
            forms = [self.act(f"layer({h})"), f"layer({h}) + {h}", f"layer({self.act(h)}) + {h}"]
            self.line(f"    {h} = {rng.choice(forms)}", tag)
        elif kind == "zip":
            maps = self.child("list", f"nn.ModuleList([nn.Linear({w}, {w}) for _ in range({n})])")
            acts = self.child(
                "list", f"nn.ModuleList([{rng.choice(ACTIVATIONS + WRITING_ACTIVATIONS)} for _ in range({n})])"
            )
            self.line(f"for layer, act in zip({maps}, {acts}):", tag)
            self.line(
                f"    {h} = {rng.choice([f'act(layer({h}))', f'layer(act({h})) + {h}', f'act(layer({h})) + {h}'])}", tag
            )
        elif kind == "range":
            self.line(f"for _ in range({n}):", tag)
            self.line(f"    {h} = {self.act(f'{self.fc()}({h})')}", tag)
        elif kind == "dict":
            maps = self.child("list", f"nn.ModuleDict({{str(i): nn.Linear({w}, {w}) for i in range({n})}})")
            self.line(f"{h} = sum(layer({h}) for layer in {maps}.values())", tag)
        elif kind == "children":
            self.fc()
            self.line("for layer in self.children():", tag)
            self.line(f"    if isinstance(layer, nn.Linear) and layer.in_features == layer.out_features == {w}:", tag)
            self.line(f"        {h} = layer({h})", tag)
        else:
            maps = self.child("list", f"nn.ModuleList([{rng.choice(blocks)}() for _ in range({n})])")
            self.line(f"for index, layer in enumerate({maps}):", tag)
            self.line(f"    {h} = layer({h})", tag)
        self.names.append(h)

    def state(self):
        h = self.var()
        tag, text = self.rng.choice([
            ("buffer written", "self.table.mul_(0.9)"),
            ("buffer written", f"self.table.copy_({h}.reshape(-1, {self.width})[:1].sum(0) * 0.1)"),
            ("buffer replaced", "self.table = self.table * 0.9"),
            ("counter", "self.count += 1"),
            ("tensor kept", f"self.last = {h}"),
            ("list kept", f"self.seen.append(float({h}.sum()))"),
        ])  # fmt: skip
        self.line(text, tag)

    def statement(self, simple=False):
        if simple or self.straight:
            kinds, chances = [self.assign, self.write, self.maps_of_one_input, self.linear_and_write], [6, 1, 1, 1]
        else:
            kinds = [
                self.assign,
                self.write,
                self.maps_of_one_input,
                self.linear_and_write,
                self.branch,
                self.loop,
                self.state,
            ]
            chances = [8, 2, 2, 2, 1.2, 1, 1]
        self.rng.choices(kinds, chances)[0]()

    def text(self, arguments, first, result):
        """The source of the class. first: lines of forward() before its statements; result: what it returns."""
        for line in first:
            self.line(line, "arguments")
        if self.optional:
            self.line(
                "y = x if y is None else y" if self.rng.random() < 0.6 else "if y is None: y = x.clone()",
                "optional argument",
            )
            self.names.append("y")
        for _ in range(self.rng.randint(1, 4) if self.straight else self.rng.randint(2, 7)):
            self.statement()
        self.line(f"return {result.format(self.names[-1], self.var())}", "result")
        head = [f"class {self.name}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        state, helper = [], []
        if not self.straight:
            state = ["        self.flag, self.count, self.scale, self.seen = True, 0, 0.5, []",
                     f"        self.register_buffer('table', torch.randn({self.width}))"]  # fmt: skip
            helper = ["", "    def helper(self, t):", "        t.mul_(0.5)", "        return t"]
        return [*head, *state, *self.init, *helper, "", f"    def forward(self, {arguments}):", *self.body, ""]
