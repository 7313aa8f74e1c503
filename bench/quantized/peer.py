"""An engine of bench/quantized.sh in its process. It makes as many matrices as fill `memory` bytes; run(n) multiplies with the next n of
them, store(path) stores the product with the first. An engine's class raises Absent if it has no such format."""

import ctypes
import os
import pathlib
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers"), str(HERE.parent)]
from engine.ways import serve  # noqa: E402
from weights import Weights  # noqa: E402


class Absent(Exception):
    pass


class Engine:
    """`calls`: one for each matrix, without arguments; bytes: of a matrix as the engine keeps it."""

    def __init__(self, variant, form, rows, channels, out, threads, memory):
        if threads == 1:
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        self.weights = Weights(form, out, channels)
        self.x = np.random.default_rng(2).standard_normal((rows, channels)).astype(np.float32)
        self.out = np.empty((rows, out), np.float32)
        self.threads, self.variant = threads, variant
        self.bytes = self.weights.data.nbytes + (0 if self.weights.scales is None else self.weights.scales.nbytes)
        self.start()
        self.calls = [self.make()]
        while len(self.calls) * self.bytes < memory:
            self.calls.append(self.make())
        self.at = 0

    def start(self):
        pass

    def size(self):
        return self.bytes

    def run(self, count):
        """Seconds of one product."""
        begin = time.perf_counter()
        for _ in range(count):
            self.result = self.calls[self.at]()
            self.at = (self.at + 1) % len(self.calls)
        return (time.perf_counter() - begin) / count

    def store(self, path):
        np.save(path, self.output())

    def output(self):
        return np.asarray(self.calls[0]())


class Fovea(Engine):
    def start(self):
        import api

        self.context = api.Library().context(self.threads)
        self.version = f"{self.context.library.version()} ({self.context.isa})"

    def make(self):
        call, self.bytes = self.context.quantized(self.x, self.weights, self.out, self.variant)
        return call

    def output(self):
        self.calls[0]()
        return self.out


class Reading(Engine):
    """Reads as many bytes as the weights have, and nothing else."""

    def start(self):
        import api

        self.library, self.version = api.Library(), ""

    def make(self):
        return self.library.reader(np.ones(self.bytes // 4, np.float32))


class Ggml(Engine):
    """ggml's products, single ones, by its C interface. `folder` has its libraries; variant repacked: weights as its CPU backend lays
    them out for itself."""

    TYPES = {"q8_0": 8, "q4_0": 2, "q4_1": 3, "q4_k": 12, "q6_k": 14}
    REPACKED, F32 = ("q4_0", "q4_k"), 0

    def start(self):
        if self.weights.dtype not in (self.REPACKED if self.variant == "repacked" else self.TYPES):
            raise Absent("no such format")
        folder = pathlib.Path(os.environ[self.variable])
        self.version = os.environ.get(f"{self.variable}_VERSION", "")
        libraries = [ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL) for name in self.libraries for path in [folder / name] if path.exists()]
        if not libraries:
            raise Absent(f"no library in {folder}")

        def find(name, result, *arguments):
            for library in libraries:
                if hasattr(library, name):
                    function = getattr(library, name)
                    function.restype, function.argtypes = result, arguments
                    return function
            raise Absent(f"its library has no {name}")

        p, i64 = ctypes.c_void_p, ctypes.c_int64

        class Parameters(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("buffer", p), ("no_alloc", ctypes.c_bool)]

        self.parameters, self.init = Parameters, find("ggml_init", p, Parameters)
        self.tensor = find("ggml_new_tensor_2d", p, p, ctypes.c_int, i64, i64)
        self.get_data, self.product = find("ggml_get_data", p, p), find("ggml_mul_mat", p, p, p, p)
        self.new_graph, self.expand = find("ggml_new_graph", p, p), find("ggml_build_forward_expand", None, p, p)

        class Plan(ctypes.Structure):  # what all versions begin with, and room for the rest
            _fields_ = [("size", ctypes.c_size_t), ("data", p), ("threads", ctypes.c_int), ("rest", ctypes.c_size_t * 16)]

        self.plan = find("ggml_graph_plan", Plan, p, ctypes.c_int, *[p] * self.threadpool)
        self.compute = find("ggml_graph_compute", ctypes.c_int, p, p)
        if self.threadpool:
            find("ggml_cpu_init", None)()
        if self.variant == "repacked":
            self.buffer_type = find("_Z35ggml_backend_cpu_repack_buffer_typev", p)
            self.allocate = find("ggml_backend_alloc_ctx_tensors_from_buft", p, p, p)
            self.set = find("ggml_backend_tensor_set", None, p, p, ctypes.c_size_t, ctypes.c_size_t)

    def make(self):
        out, channels = self.weights.shape
        rows, size = len(self.x), self.weights.data.nbytes
        own = self.variant != "repacked"
        held = self.init(self.parameters((size if own else 0) + (1 << 20), None, not own))
        w = self.tensor(held, self.TYPES[self.weights.dtype], channels, out)
        if own:
            ctypes.memmove(self.get_data(w), self.weights.data.ctypes.data, size)
        else:
            self.allocate(held, self.buffer_type())
            self.set(w, self.weights.data.ctypes.data, 0, size)
        work = self.init(self.parameters(self.x.nbytes * 3 + self.out.nbytes + (16 << 20), None, False))
        x = self.tensor(work, self.F32, channels, rows)
        ctypes.memmove(self.get_data(x), self.x.ctypes.data, self.x.nbytes)
        y = self.product(work, w, x)
        graph = self.new_graph(work)
        self.expand(graph, y)
        plan = self.plan(graph, self.threads, *[None] * self.threadpool)
        memory = np.empty(max(plan.size, 1), np.uint8)
        plan.data = memory.ctypes.data
        address = ctypes.cast(self.get_data(y), ctypes.POINTER(ctypes.c_float))
        view = np.ctypeslib.as_array(address, self.out.shape)

        def call(compute=self.compute, graph=graph, plan=ctypes.byref(plan), owned=(plan, memory)):
            if compute(graph, plan):
                raise RuntimeError("ggml_graph_compute failed")
            return view

        return call


class LlamaCpp(Ggml):
    variable, libraries, threadpool = "FOVEA_LLAMA_LIBRARIES", ("libggml-base.so", "libggml-cpu.so"), True


class IkLlamaCpp(Ggml):
    variable, libraries, threadpool = "FOVEA_IK_LIBRARIES", ("libggml.so",), False


class Torch(Engine):
    """The functions that torchao's weight-only layers call on CPUs. In float32, as float16 and bfloat16 would round x."""

    def start(self):
        import torch

        torch.set_num_threads(self.threads)
        torch.set_grad_enabled(False)
        self.torch, self.version = torch, torch.__version__.split("+")[0]
        if self.weights.dtype not in ("i8", "u4", "q4_0"):
            raise Absent("no such format")

    def make(self):
        torch, w = self.torch, self.weights
        x = torch.from_numpy(self.x)
        if w.dtype == "i8":
            integers, scales = torch.from_numpy(w.integers.copy()), torch.from_numpy(w.scales)
            return lambda: torch.ops.aten._weight_int8pack_mm(x, integers, scales)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.from_numpy(w.integers.astype(np.int32) + 8), 1)
        scales = w.group_scales().T.astype(np.float32)
        both = torch.from_numpy(np.ascontiguousarray(np.stack((scales, np.zeros_like(scales)), -1)))
        return lambda: torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, w.group, both)


class OpenVino(Engine):
    """Compressed weights; variant dynamic: x becomes int8, its own default."""

    def start(self):
        import engine_openvino

        if self.weights.integers is None:
            raise Absent("no such format")
        self.engine = engine_openvino.OpenVino(self.threads)
        self.version, self.engine.hint = self.engine.version(), "f32"

    def make(self):
        from openvino import Tensor, Type
        from openvino import opset13 as op

        w, (out, channels) = self.weights, self.weights.shape
        groups = w.group_scales().astype(np.float16)
        shape = [out, groups.shape[1], channels // groups.shape[1]]
        if w.dtype == "i8" or w.dtype == "q8_0":
            numbers = op.convert(op.constant(w.integers.reshape(shape)), Type.f16)
        else:
            nibbles = (w.integers + 8).astype(np.uint8)
            tensor = Tensor(np.ascontiguousarray(nibbles[:, ::2] | nibbles[:, 1::2] << 4), shape, Type.u4)
            numbers = op.subtract(op.convert(op.constant(tensor), Type.f16), op.constant(np.array(8, np.float16)))
        numbers = op.multiply(numbers, op.constant(groups.reshape(out, -1, 1)))
        numbers = op.convert(op.reshape(numbers, op.constant([out, channels]), False), Type.f32)
        x = op.parameter(list(self.x.shape), Type.f32)
        more = {} if self.variant == "dynamic" else {"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
        request = self.engine.request(op.matmul(x, numbers, False, True), [x], [self.x], more)
        return lambda: (request.infer(), request.get_output_tensor().data)[1]


class OnnxRuntime(Engine):
    """MatMulNBits; the variant is accuracy_level."""

    def start(self):
        import engine_onnxruntime

        if self.weights.integers is None or not self.weights.group:
            raise Absent("no such format")
        self.engine = engine_onnxruntime.OnnxRuntime(self.threads)
        self.version = self.engine.version()

    def make(self):
        from onnx_graph import CONTRIB, Graph

        w, (out, channels) = self.weights, self.weights.shape
        bits = 8 if w.dtype == "q8_0" else 4
        stored = (w.integers.astype(np.int16) + (1 << bits - 1)).astype(np.uint8)
        if bits == 4:
            stored = stored[:, ::2] | stored[:, 1::2] << 4
        graph = Graph(self.engine.onnx)
        weights = graph.value("B", stored.reshape(out, channels // w.group, -1))
        scales = graph.value("scales", w.group_scales().astype(np.float32).reshape(-1))
        graph.node("MatMulNBits", ["x", weights, scales], ["out"], CONTRIB, K=channels, N=out, bits=bits, block_size=w.group,
                   accuracy_level=int(self.variant))
        form = self.engine.form("MatMulNBits", graph, {"x": self.x}, self.out.shape)
        if not form:
            raise Absent("no such operator in this version")

        def call(run=form.run, form=form):
            run()
            return form

        return call

    def output(self):
        return self.calls[0]().output()


class Zentorch(Torch):
    """PyTorch's call, which zentorch takes over where it knows the CPU."""

    def start(self):
        super().start()
        import zentorch

        self.version = zentorch.__version__


ENGINES = {"fovea": Fovea, "reading": Reading, "llama.cpp": LlamaCpp, "ik_llama.cpp": IkLlamaCpp, "torch": Torch, "openvino": OpenVino,
           "onnxruntime": OnnxRuntime, "zentorch": Zentorch}


if __name__ == "__main__":
    serve(ENGINES)
