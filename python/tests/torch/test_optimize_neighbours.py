"""Copies by fovea.torch.optimize() in other libraries: transformers, PEFT, accelerate, a pool of processes.

Models of transformers that read weights in their forward are here, too: what reads them must get them.
"""

import copy
import pickle

import families
import pytest
import torch
import transformers
from optimized import close
from torch import nn

from fovea.torch import optimize
from fovea.torch.packed import Packed

SIZES = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99, "num_hidden_layers": 1}


@pytest.fixture
def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)).eval()


@pytest.fixture
def ids():
    return torch.randint(3, 99, (2, 7))


@pytest.fixture
def layers():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).eval()


@pytest.mark.parametrize(("name", "packed", "left"), [
    ("jamba", 32, 0),  # two of them are experts
    ("mamba", 13, 0),
    ("falcon_mamba", 13, 0),
    ("wavlm", 10, 12),  # its attention gives the weights of q, k, v and out to F.multi_head_attention_forward
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::fovea.transformers.FallbackWarning")
def test_models_that_read_weights(name, packed, left):
    model, inputs = families.make(name)
    fast = optimize(model)
    assert (len(fast.fovea_report.packed), len(fast.fovea_report.left)) == (packed, left)
    with torch.inference_mode():
        want, got = model(**inputs)[0], fast(**inputs)[0]
    if "attention_mask" in inputs:
        want, got = want[inputs["attention_mask"].bool()], got[inputs["attention_mask"].bool()]
    close(got, want, 4e-6 if name == "wavlm" else 1e-5)  # that of recurrences (test_recurrent_layers.py)


def test_storing_by_transformers(llama, ids, tmp_path):
    fast = optimize(llama)
    fast.save_pretrained(tmp_path / "copy")
    llama.save_pretrained(tmp_path / "original")
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "copy").eval()
    assert not any(isinstance(m, Packed) for m in again.modules()) and "fovea" not in again.config._attn_implementation
    plain = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "original").state_dict()
    assert again.state_dict().keys() == plain.keys()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in again.state_dict().items())
    for part in (fast, fast.model):  # which registers "fovea" where nobody has imported it
        assert b"fovea.transformers" in pickle.dumps(part)
    torch.save(fast, tmp_path / "copy.pt")
    loaded = torch.load(tmp_path / "copy.pt", weights_only=False)
    with torch.no_grad():
        assert torch.equal(again(ids)[0], llama(ids)[0]) and torch.equal(loaded(ids)[0], fast(ids)[0])


def test_peft(llama, ids):
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
    model = peft.get_peft_model(copy.deepcopy(llama), lora).eval()
    fast = optimize(model)
    with torch.no_grad():
        want = model(ids)[0]
        assert (want - llama(ids)[0]).abs().max() > 0.01
        close(fast(ids)[0], want)  # adapters are not merged
        model.disable_adapter_layers()
        plain = optimize(model)
        model.enable_adapter_layers()
        close(plain(ids)[0], llama(ids)[0])
        close(fast(ids)[0], want)
        merged = copy.deepcopy(model).merge_and_unload()
        close(optimize(merged)(ids)[0], want)
        close(fast.merge_and_unload()(ids)[0], want)  # into weights that were left to torch


@pytest.mark.parametrize("options", [{}, {"use_dora": True}, {"modules_to_save": ["lm_head"]}], ids=str)
def test_adapters_are_switched(llama, ids, options):
    peft = pytest.importorskip("peft")
    targets = ["q_proj", "v_proj", "embed_tokens"]
    lora = peft.LoraConfig(r=4, target_modules=targets, init_lora_weights=False, **options)
    model = peft.get_peft_model(copy.deepcopy(llama), lora)
    model.add_adapter("other", peft.LoraConfig(r=2, target_modules=targets, init_lora_weights=False, **options))
    if "modules_to_save" in options:
        nn.init.normal_(model.base_model.model.lm_head.modules_to_save["default"].weight)
    fast = optimize(model.eval())
    for one in (fast, copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        for _ in range(2):
            with torch.no_grad():
                want = model(ids)[0]
                with model.disable_adapter():
                    off = model(ids)[0]
                model.set_adapter("other")
                other = model(ids)[0]
                model.set_adapter("default")
            close(one(ids)[0], want)  # without no_grad()
            with one.disable_adapter():
                close(one(ids)[0], off)
            close(one(ids)[0], want)
            one.set_adapter("other")
            close(one(ids)[0], other)
            one.set_adapter("default")
            close(one(ids)[0], want)
            assert not any(p.requires_grad for p in one.parameters())
            assert (off - want).abs().max() > 0.01 < (other - want).abs().max()
        with pytest.raises(RuntimeError, match="has no gradients"):
            one.requires_grad_()


def test_accelerate(layers):
    accelerate = pytest.importorskip("accelerate")
    from accelerate import hooks

    class Double(hooks.ModelHook):
        def post_forward(self, module, output):
            return 2 * output

    x, hooked = torch.randn(3, 16), copy.deepcopy(layers)
    for module in hooked:
        hooks.add_hook_to_module(module, Double())
    fast, before = optimize(layers), optimize(hooked)
    with torch.no_grad():
        close(before(x), hooked(x))
        assert not before.fovea_report.packed
        for module in fast:
            hooks.add_hook_to_module(module, Double())
        close(fast(x), hooked(x))
        for module in fast:
            hooks.remove_hook_from_module(module)
        close(fast(x), layers(x))
        with pytest.raises(RuntimeError, match=r"fovea\.torch\.optimize\(\)"):  # it would move weights
            accelerate.dispatch_model(fast, device_map={"": "cpu"}, force_hooks=True)
        close(fast(x), layers(x))
        dispatched = accelerate.dispatch_model(copy.deepcopy(layers), device_map={"": "cpu"}, force_hooks=True)
        close(optimize(dispatched)(x), layers(x))
        offloaded = accelerate.cpu_offload(copy.deepcopy(layers), execution_device="cpu")
        close(optimize(offloaded)(x), layers(x))


@pytest.mark.slow
def test_pool_of_sentence_transformers(tmp_path):
    """Two processes get a pickled copy each, and give the vectors of the one here."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    models = pytest.importorskip("sentence_transformers.models")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    transformers.BertModel(transformers.BertConfig(**SIZES)).save_pretrained(tmp_path)
    layers = [models.Transformer(str(tmp_path)), models.Pooling(32)]
    model = sentence_transformers.SentenceTransformer(modules=layers, device="cpu")
    fast, texts = optimize(model), ["a b c", "d", "e f g h i j", "b b a"]
    want = model.encode(texts, convert_to_tensor=True)
    close(fast.encode(texts, convert_to_tensor=True), want)
    pool = fast.start_multi_process_pool(["cpu", "cpu"])
    try:
        close(torch.from_numpy(fast.encode(texts, pool=pool, chunk_size=2)), want)
    finally:
        fast.stop_multi_process_pool(pool)
