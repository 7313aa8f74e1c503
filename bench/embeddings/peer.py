"""A backend in a process of its own, for run.py. Reads orders and answers, a line of JSON each. Texts are sorted by
length and go in batches of 32, as sentence-transformers does it; batches of ONNX Runtime and OpenVINO are padded to
their longest text, as there."""

import contextlib
import io
import logging
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "peers"))
sys.path.append(os.environ["FOVEA_MODELS_PATH"])  # tokenizers
sys.path.append(str(HERE.parent))
from line_process import serve  # noqa: E402

BATCH = 32


def tokens_of(folder, limit=256):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_truncation(limit)
    tokenizer.enable_padding()
    return tokenizer


class Fovea:
    def __init__(self, model, rank, **options):
        from fovea.sentence_transformers import CrossEncoder, SentenceTransformer

        import fovea

        self.version, self.threads = fovea._core.__version__, fovea.set_num_threads
        self.model, self.ranker = SentenceTransformer(model, **options), CrossEncoder(rank, **options)

    def many(self, texts):
        return self.model.encode(texts)

    def rank(self, question, texts):
        return self.ranker.rank(question, texts)


class FoveaEmbed:
    """The program of C: a process for each call, which says how fast it was behind its start."""

    program = HERE.parents[1] / "build/release/tools/fovea-embed"

    def __init__(self, model, rank, weights=None):
        if not self.program.is_file():
            raise RuntimeError("no build/release/tools/fovea-embed: make run builds it")
        self.command = [self.program, "--model", model, *(["--weights", weights] if weights else [])]
        self.version = subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout.split()[-1]
        self.size, self.memory, self.starts = self.program.stat().st_size, 0, []

    def threads(self, count):
        self.command += ["--threads", str(count)]

    def many(self, texts):
        import numpy as np

        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "texts").write_text("".join(text + "\n" for text in texts))
            begin = time.perf_counter()
            command = [*self.command, "--text", f"{folder}/texts", "--output", f"{folder}/vectors.npy"]
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
                while run.poll() is None:  # ru_maxrss of a child counts this process
                    found = re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{run.pid}/status").read_text())
                    self.memory = max(self.memory, int(found[1]) << 10 if found else 0)
                    time.sleep(0.002)
                said = run.stderr.read()
            if run.returncode:
                raise RuntimeError(said.strip())
            whole = time.perf_counter() - begin
            self.seconds = len(texts) / int(re.search(r"(\d+) texts per second", said)[1])
            self.starts.append(whole - self.seconds)
            return np.load(f"{folder}/vectors.npy")

    def rank(self, question, texts):
        raise RuntimeError("it has no classifiers")


class Torch(Fovea):
    def __init__(self, model, rank):
        import torch
        from sentence_transformers import CrossEncoder, SentenceTransformer, __version__

        self.version, self.threads = (
            f"{__version__} with PyTorch {torch.__version__.split('+')[0]}",
            torch.set_num_threads,
        )
        self.model, self.ranker = SentenceTransformer(model, device="cpu"), CrossEncoder(rank, device="cpu")


class Batches:
    """What ONNX Runtime and OpenVINO share: infer(ids, mask) of a batch with padding."""

    def many(self, texts):
        import numpy as np

        order = np.argsort([-len(text) for text in texts], kind="stable")
        out = np.empty((len(texts), 384), np.float32)
        for first in range(0, len(order), BATCH):
            places = order[first : first + BATCH]
            found = self.tokens.encode_batch([texts[place] for place in places])
            ids = np.array([e.ids for e in found])
            out[places] = self.infer(ids, np.array([e.attention_mask for e in found]))
        return out

    def rank(self, question, texts):
        raise RuntimeError("the graph has no classifier")


class OnnxRuntime(Batches):
    """The graph that onnxruntime.transformers.optimizer makes of BERT; int8: quantize_dynamic() of it, whose weights have a
    scale for each channel, which loses less and is as fast."""

    def __init__(self, model, rank, int8=False):
        import encoder
        import numpy as np
        import onnx
        import onnxruntime
        from encoder_onnxruntime import model as graph

        data = encoder.Data.__new__(encoder.Data)
        data.weights = encoder.read_safetensors(pathlib.Path(model) / "model.safetensors")
        self.np, self.ort, self.version, self.tokens = np, onnxruntime, onnxruntime.__version__, tokens_of(model)
        self.graph = graph(onnx, data, True)
        if int8:
            self.graph = self.quantised(self.graph)

    @staticmethod
    def quantised(graph):
        import tempfile

        from onnxruntime.quantization import QuantType, quantize_dynamic

        logging.getLogger().setLevel(logging.ERROR)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "float.onnx").write_bytes(graph)
            places = f"{folder}/float.onnx", f"{folder}/int8.onnx"
            options = {"DefaultTensorType": 1}  # FLOAT
            quantize_dynamic(*places, weight_type=QuantType.QInt8, per_channel=True, extra_options=options)
            return pathlib.Path(folder, "int8.onnx").read_bytes()

    def threads(self, count):
        options = self.ort.SessionOptions()
        options.intra_op_num_threads = count
        self.session = self.ort.InferenceSession(self.graph, options, providers=["CPUExecutionProvider"])

    def infer(self, ids, mask):
        np = self.np
        weights = (mask / mask.sum(1, keepdims=True)).astype(np.float32)[:, :, None]
        inputs = {
            "ids": ids.astype(np.int32),
            "types": np.zeros(ids.shape, np.int32),
            "mask": mask.astype(np.int32),
            "weights": weights,
        }
        return self.session.run(None, inputs)[0]


class OpenVINO(Batches):
    """The graph of bench/peers, for any batch and length; int8: nncf.quantize() with 128 lines of the same text."""

    def __init__(self, model, rank, int8=False):
        import encoder
        import numpy as np
        import openvino

        data = encoder.Data.__new__(encoder.Data)
        data.weights = encoder.read_safetensors(pathlib.Path(model) / "model.safetensors")
        self.np, self.openvino, self.version = np, openvino, openvino.__version__.split("-")[0]
        self.tokens, self.graph = tokens_of(model), self.graph_of(data)
        if int8:
            sys.path.append(os.environ.get("FOVEA_NNCF", ""))
            import nncf

            lines = (HERE.parents[1] / "tools/embed/alice.txt").read_text().splitlines()
            found = [self.tokens.encode(line) for line in lines if line][:128]
            given = [(np.array([e.ids]), np.array([e.attention_mask], np.float32)) for e in found]
            nncf.set_log_level(logging.ERROR)
            with contextlib.redirect_stdout(io.StringIO()):  # progress
                self.graph = nncf.quantize(self.graph, nncf.Dataset(given), model_type=nncf.ModelType.TRANSFORMER)

    def graph_of(self, data):
        from encoder import HEADS, LAYERS
        from encoder_openvino import heads, linear, norm
        from openvino import opset13 as op

        np, w = self.np, data.weights
        ids, kept = op.parameter([-1, -1], np.int64), op.parameter([-1, -1], np.float32)
        count = op.gather(op.shape_of(ids), 1, 0)
        table = w["embeddings.position_embeddings.weight"] + w["embeddings.token_type_embeddings.weight"][0]
        places = op.gather(op.constant(table), op.range(np.int64(0), count, np.int64(1), "i64"), 0)
        x = op.add(op.gather(op.constant(w["embeddings.word_embeddings.weight"]), ids, 0), places)
        x = norm(op, x, (w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"]))
        seen = op.greater(op.unsqueeze(kept, [1, 2]), np.float32(0))
        mask = op.select(seen, np.float32(0), np.float32(-np.inf))
        for i in range(LAYERS):
            layer = data.layer(i)
            attended = linear(op, heads(op, x, *layer["qkv"], HEADS, 3, mask), *layer["o"])
            x = norm(op, op.add(attended, x), layer["norm1"])
            inner = op.gelu(linear(op, x, *layer["inner"]), "erf")
            x = norm(op, op.add(linear(op, inner, *layer["outer"]), x), layer["norm2"])
        means = op.divide(kept, op.reduce_sum(kept, 1, True))
        mean = op.reduce_sum(op.multiply(x, op.unsqueeze(means, 2)), 1)
        return self.openvino.Model([op.normalize_l2(mean, 1, 1e-12, "add")], [ids, kept])

    def threads(self, count):
        setting = {"INFERENCE_NUM_THREADS": count, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        self.request = self.openvino.compile_model(self.graph, "CPU", setting).create_infer_request()

    def infer(self, ids, mask):
        return self.request.infer([ids, mask.astype(self.np.float32)])[0]


def packages():
    """Bytes of the top packages in site-packages that are imported, with the libraries that lie beside them."""
    places = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None) or ""
        if "site-packages" in file:
            base, _, rest = file.partition("site-packages/")
            top = pathlib.Path(base, "site-packages", rest.split("/")[0])
            places |= {top, top.with_name(top.name + ".libs")}
        elif "/build/python/fovea" in file:
            places.add(pathlib.Path(file.partition("/build/python/fovea")[0], "build/python/fovea"))
    files = [f for place in places for f in ([place] if place.is_file() else place.rglob("*"))]
    return sum(f.stat().st_size for f in files if f.is_file() and "__pycache__" not in f.parts)


class Worker:
    def __init__(self):
        self.way = self.texts = None

    def answer(self, order):
        if "class" in order:
            self.way = globals()[order["class"]](order["model"], order["reranker"], **order["options"])
            return {"version": self.way.version}
        if "threads" in order:
            self.way.threads(order["threads"])
            return {}
        if "prepare" in order:
            import numpy as np

            self.texts = order["texts"]
            if order["prepare"] == "rerank":
                self.way.rank("How tall is the caterpillar?", self.texts[:2])
            else:
                np.save(order["out"], self.way.many(self.texts[: order["compared"]]))
            return {}
        if "run" in order:
            begin = time.perf_counter()
            self.way.rank("How tall is the caterpillar?", self.texts) if order["run"] == "rerank" else self.way.many(
                self.texts
            )
            return {"seconds": getattr(self.way, "seconds", time.perf_counter() - begin)}
        if "lengths" in order:
            return {"lengths": [len(ids) for ids, _ in self.way.model[0].tokens.encode(self.texts, 256)]}
        if isinstance(self.way, FoveaEmbed):
            start = statistics.median(self.way.starts) * 1e3
            return {"memory": self.way.memory, "packages": self.way.size, "start": start}
        return {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, "packages": packages()}


if __name__ == "__main__":
    serve(Worker().answer)
