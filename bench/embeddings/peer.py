"""A backend in its process, for run.py. Texts are sorted by length and go in batches of 32, as sentence-transformers does it;
batches of ONNX Runtime and OpenVINO are padded to their longest text, as there."""

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
sys.path += [str(HERE.parent / "peers"), os.environ["FOVEA_MODELS_PATH"], str(HERE.parent)]  # the second: tokenizers
from engine.ways import serve  # noqa: E402

BATCH = 32
QUESTION = "How tall is the caterpillar?"


class Backend:
    """The orders of run.py. A backend has many(texts) and rank(question, texts)."""

    def prepare(self, case, texts, out, compared):
        """Warms up; writes the vectors of the first texts."""
        import numpy as np

        self.texts = texts
        if case == "rerank":
            self.rank(QUESTION, texts[:2])
        else:
            np.save(out, self.many(texts[:compared]))

    def run(self, case):
        """Seconds."""
        begin = time.perf_counter()
        self.rank(QUESTION, self.texts) if case == "rerank" else self.many(self.texts)
        return getattr(self, "seconds", time.perf_counter() - begin)

    def size(self):
        return {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, "packages": packages()}

    def rank(self, question, texts):
        raise RuntimeError("it has no classifier")


class Fovea(Backend):
    def __init__(self, model, reranker, threads, **options):
        from fovea.sentence_transformers import CrossEncoder, SentenceTransformer

        import fovea

        self.version = fovea._core.__version__
        fovea.set_num_threads(threads)
        self.model, self.ranker = SentenceTransformer(model, **options), CrossEncoder(reranker, **options)

    def many(self, texts):
        return self.model.encode(texts)

    def rank(self, question, texts):
        return self.ranker.rank(question, texts)

    def lengths(self):
        return [len(ids) for ids, _ in self.model[0].tokens.encode(self.texts, 256)]


class FoveaEmbed(Backend):
    """The program: a process for each call, which says how fast it was behind its start."""

    program = HERE.parents[1] / "build/release/tools/fovea-embed"

    def __init__(self, model, reranker, threads, weights=None):
        if not self.program.is_file():
            raise RuntimeError("no build/release/tools/fovea-embed: make run builds it")
        self.command = [self.program, "--model", model, *(["--weights", weights] if weights else []), "--threads", str(threads)]
        self.version = subprocess.run([self.program, "--version"], capture_output=True, text=True).stdout.split()[-1]
        self.memory, self.starts = 0, []

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

    def size(self):
        return {"memory": self.memory, "packages": self.program.stat().st_size, "start": statistics.median(self.starts) * 1e3}


class Torch(Fovea):
    def __init__(self, model, reranker, threads):
        import torch
        from sentence_transformers import CrossEncoder, SentenceTransformer, __version__

        self.version = f"{__version__} with PyTorch {torch.__version__.split('+')[0]}"
        torch.set_num_threads(threads)
        self.model, self.ranker = SentenceTransformer(model, device="cpu"), CrossEncoder(reranker, device="cpu")


class Batches(Backend):
    """ONNX Runtime and OpenVINO have infer(ids, mask) of a batch with padding."""

    def __init__(self, model):
        from tokenizers import Tokenizer

        self.tokens = Tokenizer.from_file(f"{model}/tokenizer.json")
        self.tokens.enable_truncation(256)
        self.tokens.enable_padding()

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


class OnnxRuntime(Batches):
    """int8: quantize_dynamic() of the graph, whose weights have a scale for each channel, which loses less and is as fast."""

    def __init__(self, model, reranker, threads, int8=False):
        super().__init__(model)
        import graphs
        import onnx
        import onnxruntime

        self.version = onnxruntime.__version__
        graph = graphs.of_onnx(onnx, graphs.read_safetensors(f"{model}/model.safetensors"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        graph = self.quantized(graph) if int8 else graph
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    @staticmethod
    def quantized(graph):
        from onnxruntime.quantization import QuantType, quantize_dynamic

        logging.getLogger().setLevel(logging.ERROR)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "float.onnx").write_bytes(graph)
            places = f"{folder}/float.onnx", f"{folder}/int8.onnx"
            options = {"DefaultTensorType": 1}  # FLOAT
            quantize_dynamic(*places, weight_type=QuantType.QInt8, per_channel=True, extra_options=options)
            return pathlib.Path(folder, "int8.onnx").read_bytes()

    def infer(self, ids, mask):
        import numpy as np

        weights = (mask / mask.sum(1, keepdims=True)).astype(np.float32)[:, :, None]
        inputs = {
            "ids": ids.astype(np.int32),
            "types": np.zeros(ids.shape, np.int32),
            "mask": mask.astype(np.int32),
            "weights": weights,
        }
        return self.session.run(None, inputs)[0]


class OpenVINO(Batches):
    """int8: nncf.quantize() with 128 lines of the same text."""

    def __init__(self, model, reranker, threads, int8=False):
        super().__init__(model)
        import graphs
        import openvino

        self.version = openvino.__version__.split("-")[0]
        graph = graphs.of_openvino(openvino, graphs.read_safetensors(f"{model}/model.safetensors"))
        setting = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        graph = self.quantized(graph) if int8 else graph
        self.request = openvino.compile_model(graph, "CPU", setting).create_infer_request()

    def quantized(self, graph):
        import numpy as np

        sys.path.append(os.environ.get("FOVEA_NNCF", ""))
        import nncf

        lines = (HERE.parents[1] / "tools/embed/alice.txt").read_text().splitlines()
        found = [self.tokens.encode(line) for line in lines if line][:128]
        given = [(np.array([e.ids]), np.array([e.attention_mask], np.float32)) for e in found]
        nncf.set_log_level(logging.ERROR)
        with contextlib.redirect_stdout(io.StringIO()):  # progress
            return nncf.quantize(graph, nncf.Dataset(given), model_type=nncf.ModelType.TRANSFORMER)

    def infer(self, ids, mask):
        return self.request.infer([ids, mask.astype("float32")])[0]


def packages():
    """Bytes of the top packages in site-packages that are imported, and of the libraries next to them."""
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


if __name__ == "__main__":
    serve({kind.__name__: kind for kind in (Fovea, FoveaEmbed, Torch, OnnxRuntime, OpenVINO)})
