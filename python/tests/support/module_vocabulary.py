"""What forward() of a random class is written with: activations, writes, conditions, views."""

ACTIVATIONS = [
    "nn.ReLU()",
    "nn.GELU()",
    'nn.GELU("tanh")',
    "nn.SiLU()",
    "nn.Tanh()",
    "nn.Identity()",
    "nn.Dropout(0.5)",
    "PlainGELU()",
    "HalfGELU()",
    "nn.Sequential(nn.ReLU())",
]
WRITING_ACTIVATIONS = [
    "nn.ReLU(inplace=True)",
    "ReLU_()",
    "nn.SiLU(inplace=True)",
    "nn.LeakyReLU(0.1, inplace=True)",
    "nn.Hardtanh(-0.5, 0.5, inplace=True)",
    "nn.Sequential(nn.ELU(inplace=True))",
    "nn.ReLU6(inplace=True)",
]
FUNCTIONS = [
    "F.relu({})",
    "F.gelu({})",
    'F.gelu({}, approximate="tanh")',
    "torch.relu({})",
    "F.silu({})",
    "F.dropout({}, 0.5)",
    "F.dropout({}, 0.5, self.training)",
    "({}).clamp(min=0)",
    "torch.tanh({})",
]
WRITING_FUNCTIONS = [
    "F.relu({}, inplace=True)",
    "torch.relu_({})",
    "({}).relu_()",
    "F.silu({}, inplace=True)",
    "F.leaky_relu({}, 0.1, True)",
    "F.elu_({})",
    "({}).clamp_(-1, 1)",
]

# What changes a tensor h, with another one r: (construct, statements).
WRITES = [
    ("write: item", ["{h}[0] = 0"]),
    ("write: column", ["{h}[:, 0] += 1"]),
    ("write: ellipsis", ["{h}[..., 0] = 0.5"]),
    ("write: all items", ["{h}[...] = {r}"]),
    ("write: *=", ["{h} *= 0.5"]),
    ("write: += tensor", ["{h} += {r}"]),
    ("write: method", ["{h}.mul_(0.5)"]),
    ("write: method", ["{h}.add_({r}, alpha=0.5)"]),
    ("write: copy_", ["{h}.copy_({r} * 0.5)"]),
    ("write: masked_fill_", ["{h}.masked_fill_({h} < 0, 0)"]),
    ("write: F.relu inplace", ["F.relu({h}, inplace=True)"]),
    ("write: torch.relu_", ["torch.relu_({h})"]),
    ("write: view", ["view = {h}[..., 1:]", "view.mul_(0.5)"]),
    ("write: view", ["{h}.unsqueeze(0).mul_(0.5)"]),
    ("write: transpose", ["view = {h}.transpose(0, -1)", "view.mul_(0.5)"]),
    ("write: rows", ["for row in {h}:", "    row.mul_(0.5)"]),
    ("write: chunk", ["first, second = {h}.chunk(2, -1)", "first.zero_()"]),
    ("write: detach", ["{h}.detach().mul_(0.5)"]),
    ("write: alias", ["alias = {h}", "alias.add_(0.25)"]),
    ("write: alias", ["alias = [{h}]", "alias[0] *= 0.5"]),
    ("write: attribute", ["self.kept = {h}", "self.kept.mul_(0.5)"]),
    ("write: data", ["{h}.data.mul_(0.5)"]),
    ("write: data", ["{h}.data[0] = 0"]),
    ("write: out=", ["torch.add({h}, 0.25, out={h})"]),
    ("write: out=", ["torch.mul({r}, 0.5, out={h})"]),
    ("write: own method", ["self.helper({h})"]),
    ("write: function", ["write({h})"]),
    ("write: lambda", ["(lambda t: t.mul_(0.5))({h})"]),
    ("write: numpy", ["{h}.numpy()[...] *= 0.5"]),
    ("write: dlpack", ["torch.from_dlpack({h}).mul_(0.5)"]),
    ("write: foreach", ["torch._foreach_mul_([{h}], 0.5)"]),
    ("write: operator", ["operator.imul({h}, 0.5)"]),
    ("write: condition", ["if {h}.mul_(0.5) is None:", "    return None"]),
    ("write: no_grad", ["with torch.no_grad():", "    {h}.add_(0.25)"]),
]
STRAIGHT_WRITES = [
    w
    for w in WRITES
    if w[0]
    in ("write: *=", "write: += tensor", "write: F.relu inplace", "write: torch.relu_", "write: method", "write: item")
]

CONDITIONS = [
    ("if: shape", "{h}.shape[0] > 2"),
    ("if: dim", "{h}.dim() == 2"),
    ("if: flag", "self.flag"),
    ("if: global", "FLAG"),
    ("if: isinstance", "isinstance({h}, torch.Tensor)"),
    ("if: value", "{h}[..., 0].mean() > 0.1"),
    ("if: None", "y is None"),
    ("if: counter", "self.count % 2 == 0"),
    ("if: training", "self.training"),
    ("if: dtype", "{h}.dtype is torch.float32"),
    ("if: class of child", "isinstance({fc}, nn.Linear)"),
    ("if: hasattr", "hasattr(self, 'kept')"),
]
READS = [
    "F.linear({h}, {fc}.weight, {fc}.bias)",
    "{h} @ {fc}.weight.t()",
    "torch.einsum('...i,oi->...o', {h}, {fc}.weight)",
    "{h} * {fc}.weight.norm()",
    "{h} + {fc}.weight.sum(1)",
    "{h} + {fc}.bias",
    "{h} * float({fc}.weight[0, 0])",
    "{h}.to({fc}.weight.dtype)",
    "{h}.to({fc}.weight.device)",
    "{h} * {fc}.in_features / {fc}.weight.shape[1]",
    "{h} * sum(p.numel() for p in {fc}.parameters()) / 500",
    "{h} * len(list({fc}.children()) + [0])",
]
VIEWS = [
    "{h}",
    "{h}.view({h}.shape)",
    "{h}[...]",
    "{h}.detach()",
    "{h}.unsqueeze(0).squeeze(0)",
    "{h}.transpose(0, -1).transpose(0, -1)",
    "{h}.data",
    "{h}.contiguous()",
    "{h}.clone()",
    "{h}.to({h}.dtype)",
    "{h}.expand_as({h})",
    "{h}.flatten(0, -2).view({h}.shape)",
]
