"""fovea.torch and fovea.transformers imported after numpy's arrays were used, again while enabled, and reloaded."""

from processes import run

CODE = """
import importlib, sys
import numpy as np
import fovea

x = np.ones((1, 1, 2, 8), np.float32)
assert np.array_equal(fovea.attention(x, x, x), x)
import torch
import transformers
import fovea.transformers
import fovea.torch

fovea.torch.enable()
q = torch.randn(1, 2, 3, 8, requires_grad=True)


def forget():
    for name in [name for name in sys.modules if name.partition(".")[0] == "fovea"]:
        del sys.modules[name]


def reload():
    for name in [name for name in sys.modules if name.startswith("fovea.")]:
        importlib.reload(sys.modules[name])
    importlib.reload(fovea)


config = transformers.LlamaConfig(
    hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4, vocab_size=50
)
model = transformers.LlamaForCausalLM(config).eval()
tokens, plain = torch.tensor([[1, 2, 3]]), torch.nn.functional.scaled_dot_product_attention
for again in (forget, reload, forget):
    again()
    import fovea.torch
    import fovea.transformers

    assert fovea.torch.enabled()
    fovea.torch.reset_counters()
    out = plain(q, q, q)
    assert fovea.torch.counters()["fovea"] == {"sdpa": 1}, fovea.torch.counters()
    for attention in (fovea.torch.attention, lambda *x: torch.ops.fovea.attention(*x)[0], plain):
        result = attention(q, q, q)
        result.sum().backward()
        torch.testing.assert_close(result, out)
    model.set_attn_implementation("fovea")
    made = model.generate(tokens, max_new_tokens=4, do_sample=False)
    assert fovea.transformers.counters.fused
    model.set_attn_implementation("eager")
    assert torch.equal(made, model.generate(tokens, max_new_tokens=4, do_sample=False))
fovea.torch.disable()
plain(q, q, q)
assert not fovea.torch.enabled() and fovea.torch.counters()["fovea"] == {"sdpa": 2}, fovea.torch.counters()
print("done")
"""


def test_imported_again():
    assert run(CODE) == "done"
