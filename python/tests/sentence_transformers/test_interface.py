"""Arguments and results of encode(), what it refuses and in which words, threads, processes and signals."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import embedding_models
import numpy as np
import pytest
import real_models
import torch
from sentence_transformers import util

from fovea import sentence_transformers
from fovea.sentence_transformers import SentenceTransformer


TEXTS = embedding_models.texts()


def test_kinds_of_results(model):
    vectors = model.encode(TEXTS)
    assert vectors.shape == (11, 64) == (len(TEXTS), model.get_sentence_embedding_dimension())
    assert model.encode(TEXTS[0]).shape == (64,) and model.encode([]).shape == (0,)
    assert model.encode(tuple(TEXTS)).tobytes() == model.encode(np.array(TEXTS)).tobytes() == vectors.tobytes()
    tensor = model.encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and np.array_equal(tensor, vectors)
    assert [type(v) for v in model.encode(TEXTS[:2], convert_to_numpy=False)] == [torch.Tensor] * 2
    states = model.encode(TEXTS, output_value="token_embeddings")
    items = model.encode(TEXTS, output_value=None)
    for item, tokens, vector in zip(items, states, vectors, strict=True):
        assert np.array_equal(item["token_embeddings"], tokens) and np.array_equal(item["sentence_embedding"], vector)
        assert len(item["input_ids"]) == len(tokens)
    with model.truncate_embeddings(7):
        assert np.array_equal(model.encode(TEXTS), vectors[:, :7]) and model.get_embedding_dimension() == 7


@pytest.mark.parametrize("precision", ["int8", "uint8", "binary", "ubinary"])
def test_precision(precision, model):
    found = model.encode(TEXTS, precision=precision)
    expected = util.quantize_embeddings(model.encode(TEXTS), precision)
    assert found.dtype == expected.dtype and np.array_equal(found, expected)
    if "int8" in precision:
        with pytest.raises(ValueError, match="of one text has no range"):
            model.encode("w1", precision=precision)


def test_limit(folder):
    model = SentenceTransformer(folder)
    assert model.max_seq_length == embedding_models.LIMIT
    long, cut = "w1 w2 w3 " * 90, "w1 w2 w3 " * 2
    model.max_seq_length = 8
    assert np.array_equal(model.encode(long), model.encode(cut))
    with pytest.raises(ValueError, match="max_seq_length is 257, this model has positions for 256 tokens"):
        model.max_seq_length = 257
    for wrong in (7.5, "8", True):
        with pytest.raises(TypeError, match=f"max_seq_length is {wrong!r}, it must be a whole number"):
            model.max_seq_length = wrong
    with pytest.raises(ValueError, match="max_seq_length is 0, it must be at least 1"):
        model[0].max_seq_length = 0
    assert model.max_seq_length == model.get_max_seq_length() == model[0].max_seq_length == 8
    found = model.tokenize(["w1", "w1 w2"])
    assert found["input_ids"].tolist() == [[0, 6, 2, 1], [0, 6, 7, 2]] and found["attention_mask"].sum() == 7


def test_progress(model, capfd, monkeypatch):
    model.encode(TEXTS, show_progress_bar=True)
    assert "11/11" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    model.encode(TEXTS, show_progress_bar=True)
    assert "Texts: 11/11, 0 s left" in capfd.readouterr().err
    model.encode(TEXTS)
    assert capfd.readouterr().err == ""


# ------------------------------------------------------------------------------------------------------ what is refused


def test_what_is_not_there(model):
    for name, hint in [
        ("fit", "it computes vectors"), ("push_to_hub", "it computes vectors"), ("cuda", "Fovea computes on CPUs"),
        ("state_dict", "weights are packed"), ("forward", "call encode"),
    ]:  # fmt: skip
        with pytest.raises(
            AttributeError, match=f"SentenceTransformer of fovea.sentence_transformers has no '{name}': {hint}"
        ):
            getattr(model, name)
    with pytest.raises(AttributeError, match="Transformer of fovea.sentence_transformers has no 'auto_model': weights are"):
        model[0].auto_model
    with pytest.raises(TypeError, match="a SentenceTransformer is not called: call its encode"):
        model({"input_ids": []})
    assert not hasattr(model, "fit")
    with pytest.raises(AttributeError, match="fovea.sentence_transformers has no 'SparseEncoder': it has SentenceTr"):
        sentence_transformers.SparseEncoder  # noqa: B018


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"device": "cuda:0"}, "device is 'cuda:0': Fovea computes on CPUs"),
        ({"backend": "onnx"}, "backend is 'onnx': Fovea is the backend here"),
        ({"model_kwargs": {"file_name": "x"}}, "model_kwargs has 'file_name', which is not served"),
        ({"dtype": "float64"}, "dtype is 'float64': 'float32', 'bfloat16' and 'float16' are served"),
        ({"truncate_dim": 7.5}, "truncate_dim is 7.5, it must be a whole number"),
        ({"truncate_dim": 0}, "truncate_dim is 0, it must be at least 1"),
        ({"prompts": {"query": 5}}, "prompts have 5: they must be texts"),
        ({"processor_kwargs": {"model_max_length": "9"}}, "model_max_length is '9', it must be a whole number"),
        ({"weights": "int3"}, "int3"),
        ({"weights": "int8", "arithmetic": "q9"}, "q9"),
        ({"arithmetic": "q8"}, "arithmetic is 'q8', which is of weights that are rounded: weights= is not given"),
        ({"similarity_fn_name": "maxsim"}, "similarity_fn_name is 'maxsim', it must be one of cosine"),
        ({"colour": 1}, "has no argument 'colour'"),
    ],
)
def test_refused_options(options, sentence, folder):
    with pytest.raises((ValueError, NotImplementedError, TypeError), match=sentence):
        SentenceTransformer(folder, **options)


def test_refused_inputs(model):
    for wrong, sentence in [
        (None, r"takes a text or a list of texts, not NoneType"),
        (5, "takes a text or a list of texts, not int"),
        (np.array(5.0), "takes a text or a list of texts, not ndarray"),
        (b"w1", "takes a text or a list of texts, not bytes"),
        ({"w1": 1}, "takes a text or a list of texts, not dict"),
        ([b"x"], "bytes"),
        ([("a", "b")], "tuple"),
        ([None], "NoneType"),
    ]:
        with pytest.raises(TypeError, match=sentence):
            model.encode(wrong)
    for options, sentence in [
        ({"batch_size": "32"}, "batch_size is '32', it must be a whole number"),
        ({"batch_size": 2.5}, "batch_size is 2.5, it must be a whole number"),
        ({"truncate_dim": "7"}, "truncate_dim is '7', it must be a whole number"),
        ({"chunk_size": 1.0}, "chunk_size is 1.0, it must be a whole number"),
        ({"prompt": 5}, "prompt is 5, it must be a text"),
        ({"pool": 5}, "pool must be what start_multi_process_pool"),
        ({"pool": {}}, "pool must be what start_multi_process_pool"),
    ]:
        with pytest.raises(TypeError, match=sentence):
            model.encode(TEXTS, **options)
    for options, sentence in [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"prompt_name": ["query"]}, r"prompt_name is \['query'\], prompts are"),
        ({"prompt": "\ud800"}, "a text has half of a surrogate pair"),
        ({"precision": "float16"}, "precision is 'float16'"),
        ({"output_value": "x"}, "output_value is 'x'"),
        ({"device": "mps"}, "device is 'mps'"),
        ({"colour": 1}, "no argument 'colour'"),
        ({"colour": 1, "task": "query"}, "no argument 'colour'"),
        ({"truncate_dim": -1}, "truncate_dim is -1, it must be at least 1"),
        ({"chunk_size": 0}, "chunk_size is 0, it must be at least 1"),
        ({"chunk_size": -1}, "chunk_size is -1, it must be at least 1"),
        ({"precision": "int8", "output_value": "token_embeddings"}, "precision='int8' is served for output_value='sent"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            model.encode(TEXTS, **options)


# --------------------------------------------------------------------------------------- threads, processes, signals


def test_many_texts_and_threads(model):
    """More texts than are tokenized at once, by threads that share a model."""
    some = [text for text in TEXTS if len(text) < 200]
    texts = some * 300
    expected = model.encode(some)
    found = [None] * 3

    def work(i):
        found[i] = model.encode(texts, batch_size=[7, 32, 100][i])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert all(f.tobytes() == np.tile(expected, (300, 1)).tobytes() for f in found)
    assert not [t for t in threading.enumerate() if t.name == "fovea tokens"]


def test_processes(model):
    pool = model.start_multi_process_pool(["cpu", "cpu"])
    try:
        assert model.encode(TEXTS * 5, pool=pool, chunk_size=9).tobytes() == model.encode(TEXTS * 5).tobytes()
        tokens = model.encode(TEXTS, pool=pool, output_value="token_embeddings")
        assert all(map(np.array_equal, tokens, model.encode(TEXTS, output_value="token_embeddings")))
        with pytest.raises(RuntimeError, match="a process of the pool: ValueError: batch_size is 0"):
            model.encode(TEXTS, pool=pool, batch_size=0)
        assert model.encode(TEXTS, pool=pool).tobytes() == model.encode(TEXTS).tobytes()
        pool["processes"][0].kill()
        pool["processes"][1].kill()
        with pytest.raises(RuntimeError, match="a process of the pool has ended"):
            model.encode(TEXTS, pool=pool)
    finally:
        model.stop_multi_process_pool(pool)
    with pytest.raises(ValueError, match="device is 'cuda'"):
        model.encode(TEXTS, device=["cpu", "cuda"])


def run(code, *arguments, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment)


def test_without_torch(model, folder):
    code = """if 1:
        import sys
        for name in ("torch", "transformers", "sentence_transformers", "safetensors", "tqdm", "huggingface_hub",
        "ml_dtypes"):
            sys.modules[name] = None
        from fovea.sentence_transformers import SentenceTransformer
        model = SentenceTransformer(sys.argv[1])
        vectors = model.encode(sys.argv[2:])
        print(vectors.tobytes().hex())
        for call in (lambda: model.encode("w1", convert_to_tensor=True), lambda: SentenceTransformer("a/b")):
            try:
                call()
            except (ImportError, OSError) as error:
                print(error)
        """
    done = run(code, folder, *TEXTS)
    assert done.returncode == 0, done.stderr
    hexadecimal, tensors, names = done.stdout.splitlines()
    assert bytes.fromhex(hexadecimal) == model.encode(TEXTS).tobytes()
    assert tensors == "tensors need torch, which is not installed: leave convert_to_numpy=True"
    assert names.endswith("names on the hub need huggingface_hub: pip install huggingface_hub")


@pytest.mark.parametrize("name", ["numpy", "tokenizers"])
def test_without_what_it_needs(name, folder):
    code = """if 1:
        import sys
        sys.modules[sys.argv[1]] = None
        try:
            from fovea.sentence_transformers import SentenceTransformer
            SentenceTransformer(sys.argv[2])
        except ImportError as error:
            print(error)
        """
    assert run(code, name, folder).stdout == f"fovea.sentence_transformers needs {name}: pip install {name}\n"


def test_ctrl_c(folder):
    """Ends soon, with KeyboardInterrupt, and leaves the model as it was."""
    code = """if 1:
        import signal, sys, threading
        from fovea.sentence_transformers import SentenceTransformer
        signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background lacks
        model = SentenceTransformer(sys.argv[1])
        before = model.encode("w1 w2").tobytes()
        print("ready", flush=True)
        try:
            model.encode(["w1 w2 w3 " * 60] * 10**5)
        except KeyboardInterrupt:
            print(model.encode("w1 w2").tobytes() == before, threading.active_count())
        """
    process = subprocess.Popen([sys.executable, "-c", code, folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.7)  # it sorts and tokenizes, then computes
    process.send_signal(signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert out == "True 1\n"


def test_minilm(tiers):
    """Real weights: near sentence-transformers, and the same bits alone, in batches and on each tier of a process
    of its own."""
    import sentence_transformers as theirs

    folder = str(real_models.minilm())
    if not os.path.isfile(f"{folder}/modules.json"):
        pytest.skip("all-MiniLM-L6-v2 is here without modules.json")
    texts = ["", "How tall is the caterpillar?", "It was exactly three inches high. " * 4, "a"]
    model = SentenceTransformer(folder)
    vectors = tiers(lambda: model.encode(texts, batch_size=64))
    assert np.abs(vectors - theirs.SentenceTransformer(folder, device="cpu").double().encode(texts)).max() < 1e-6
    assert np.stack([model.encode(text) for text in texts]).tobytes() == vectors.tobytes()
    code = """if 1:
        import sys
        from fovea.sentence_transformers import SentenceTransformer
        print(SentenceTransformer(sys.argv[1]).encode(sys.argv[2:]).tobytes().hex())
        """
    done = run(code, folder, *texts, FOVEA_ISA="scalar")
    assert bytes.fromhex(done.stdout) == vectors.tobytes(), done.stderr


@pytest.mark.slow
def test_memory_stays_flat(folder):
    """100,000 texts need, apart from texts and vectors, no more memory than 5,000."""
    code = """if 1:
        import resource, sys
        from fovea.sentence_transformers import SentenceTransformer
        model = SentenceTransformer(sys.argv[1])
        texts = [f"w{i % 100} w{i % 7} " * (1 + i % 40) for i in range(int(sys.argv[2]))]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        vectors = model.encode(texts)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 - vectors.nbytes)
        """
    few, many = (int(run(code, folder, str(count)).stdout) for count in (5000, 100000))
    assert many < few + (24 << 20)
