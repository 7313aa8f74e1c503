"""A way to run the models of bench/models.sh, in its process: started by run.py through engine/ways.py, whose orders are the methods
of Engine.

  Torch      an attention implementation of transformers, or fovea.torch.optimize(model)
  Zentorch   torch.compile(model, backend="zentorch"), weights frozen: AMD's way. Decoding on a static cache, as what grows would be
             compiled anew for each length.
  OpenVINO   openvino.convert_model(model); decoding with keys and values as the state of the model. All in float32.
"""

import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# The models' and the tests' packages, where this interpreter has none of its own.
sys.path[:0] = [str(HERE.parent)]
sys.path += [str(HERE.parents[1] / "python/tests/support"), *filter(None, os.environ.get("FOVEA_MODELS_PATH", "").split(":"))]
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
from engine.ways import serve  # noqa: E402


class Engine:
    """made(name, case) gives what use(made) makes a call of; made is kept while the number of threads changes."""

    def __init__(self):
        import torch
        import transformers

        transformers.logging.set_verbosity_error()
        # transformers asks at each call; in a CUDA build without a device the answer is a slow exception.
        torch.cuda.is_current_stream_capturing = lambda: False
        self.torch, self.kept, self.result = torch, {}, tempfile.NamedTemporaryFile(suffix=".npy")
        self.inference = torch.no_grad

    def prepare(self, case, threads):
        from cases import CASES

        self.torch.set_num_threads(threads)
        with self.inference():
            if case not in self.kept:
                self.kept = {case: self.made(case, CASES[case]())}
            self.call = self.use(self.kept[case], threads)

    def use(self, made, threads):
        return made

    def run(self):
        """Seconds; and where the result is."""
        import numpy as np
        from cases import once

        with self.inference():
            found, seconds = once(self.call)
        np.save(self.result.name, found.float().numpy())
        return {"seconds": seconds, "result": self.result.name}


class Torch(Engine):
    def __init__(self, attention):
        super().__init__()
        self.attention, self.version, self.inference = attention, f"torch {self.torch.__version__}", self.torch.inference_mode
        if attention in ("fovea", "optimize"):
            import fovea.torch
            import fovea.transformers

            import fovea

            info = fovea.info()
            self.version, self.fovea = f"{fovea.__version__} ({info['cpu']}, {info['isa']})", fovea

    def made(self, name, case):
        if self.attention != "optimize":
            model = case.load(self.attention)
        elif name == "minilm":
            model = case.replace(case.load("sdpa"), self.fovea.torch.optimize)
        else:
            model = self.fovea.torch.optimize(case.load("sdpa"))
        return lambda: case.call(model)

    def memory(self):
        from cases import memory

        with self.inference():
            return memory(self.attention)

    def fallbacks(self):
        """Calls that fell back from Fovea to torch."""
        return dict(self.fovea.transformers.counters.fallbacks) | self.fovea.torch.counters()["torch"]


class Zentorch(Engine):
    def __init__(self):
        super().__init__()
        import zentorch

        self.torch._inductor.config.freezing = True
        self.version = f"{zentorch.__version__} with PyTorch {self.torch.__version__.split('+')[0]}"

    def made(self, name, case):
        self.torch._dynamo.reset()
        model = case.load("sdpa")
        compile = lambda inner: self.torch.compile(inner, backend="zentorch", dynamic=name == "minilm")
        if name == "minilm":
            case.replace(model, compile)
            return lambda: case.call(model)
        if name == "decode":
            return self._steps(case, model, compile(model))
        fast = compile(model)
        return lambda: case.call(fast)

    def _steps(self, case, model, fast):
        import transformers
        from cases import PROMPT, STEPS

        torch, tokens = self.torch, case.inputs["input_ids"]
        cache = transformers.StaticCache(config=model.config, max_cache_len=PROMPT + STEPS)
        model(tokens, past_key_values=cache, logits_to_keep=1)

        def call():
            for layer in cache.layers:
                layer.cumulative_length.fill_(PROMPT)
            token, begin = tokens[:, -1:], time.perf_counter()
            for i in range(STEPS):
                place = torch.tensor([[PROMPT + i]])
                logits = fast(token, position_ids=place, past_key_values=cache, logits_to_keep=1).logits
                token = logits[:, -1].argmax(-1, keepdim=True)
            return logits, time.perf_counter() - begin

        return call


class OpenVINO(Engine):
    def __init__(self):
        super().__init__()
        import openvino

        self.openvino, self.version = openvino, openvino.__version__.split("-")[0]

    def made(self, name, case):
        return getattr(self, f"_convert_{name}", self._convert)(case)

    def use(self, made, threads):
        setting = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        converted, use = made
        return use(self.openvino.compile_model(converted, "CPU", setting).create_infer_request())

    def _wrapped(self, model, output, names, fixed, more=lambda: {}):
        """A module whose positional inputs are those names, and whose result is one tensor. more(): other arguments of each call."""

        class Wrapped(self.torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, *inputs):
                return getattr(self.model(**dict(zip(names, inputs)), **fixed, **more()), output)

        return Wrapped().eval()

    def _convert(self, case, more=lambda model: {}):
        inputs, model = tuple(case.inputs.values()), case.load("sdpa")
        fixed = {**case.fixed, "return_dict": True}
        wrapped = self._wrapped(model, case.output, list(case.inputs), fixed, lambda: more(model))
        converted = self.openvino.convert_model(wrapped, example_input=inputs, input=[x.shape for x in inputs])
        arrays = [x.numpy() for x in inputs]
        return converted, lambda request: lambda: self.torch.from_numpy(request.infer(arrays)[0])

    def _cache(self, past):
        """A cache of keys and values [k0, v0, k1, ...]. Its own way to be filled would begin with tensors of one dimension, which
        OpenVINO does not join to these."""
        from transformers.cache_utils import Cache, DynamicLayer

        layers = [DynamicLayer() for _ in past[::2]]
        for layer, keys, values in zip(layers, past[::2], past[1::2]):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
        return Cache(layers=layers)

    def _convert_prefill(self, case):
        """With a cache of no tokens: without one the model looks for packed sequences, by operators that OpenVINO does not have."""

        def cache(model):
            config = model.config
            empty = self.torch.zeros(1, config.num_key_value_heads, 0, config.hidden_size // config.num_attention_heads)
            return {"past_key_values": self._cache([empty] * 2 * config.num_hidden_layers), "use_cache": True}

        return self._convert(case, cache)

    def _convert_minilm(self, case):
        torch, names = self.torch, ("input_ids", "attention_mask", "token_type_ids")
        from transformers.modeling_outputs import BaseModelOutput

        class Converted(torch.nn.Module):
            """In place of the encoder."""

            def __init__(self, original):
                super().__init__()
                self.config, self.dtype, self.device, self.request = original.config, torch.float32, torch.device("cpu"), None

            def forward(self, return_dict=True, **inputs):
                found = self.request.infer([inputs[name].numpy() for name in names])[0]
                return BaseModelOutput(last_hidden_state=torch.from_numpy(found))

        model, kept = case.load("sdpa"), []
        case.replace(model, lambda inner: kept.append(inner) or Converted(inner))
        wrapped = self._wrapped(kept[0], "last_hidden_state", names, {})
        example = torch.ones(2, 16, dtype=torch.long)
        example[1, 12:] = 0
        converted = self.openvino.convert_model(wrapped, example_input=(example, example, torch.zeros_like(example)))

        def use(request):
            case.replace(model, lambda inner: setattr(inner, "request", request) or inner)
            return lambda: case.call(model)

        return converted, use

    def _convert_decode(self, case):
        import numpy as np
        from cases import PROMPT, STEPS
        from openvino._offline_transformations import apply_make_stateful_transformation

        engine, torch, model = self, self.torch, case.load("sdpa")
        cache = case.read_prompt(model)
        past = [x.contiguous() for layer in cache.layers for x in (layer.keys, layer.values)]

        class Step(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model

            def forward(self, token, place, *past):
                cache = engine._cache(past)
                logits = self.model(token, position_ids=place, past_key_values=cache, use_cache=True).logits
                return logits, *[x for layer in cache.layers for x in (layer.keys, layer.values)]

        tokens = case.inputs["input_ids"]
        step = (tokens[:, -1:], torch.tensor([[PROMPT]]))
        shapes = [[1, 1], [1, 1]] + [[1, past[0].shape[1], -1, past[0].shape[3]]] * len(past)
        converted = self.openvino.convert_model(Step().eval(), example_input=(*step, *past), input=shapes)
        names = {}
        for i in range(len(past)):
            converted.inputs[2 + i].get_tensor().set_names({f"past.{i}"})
            converted.outputs[1 + i].get_tensor().set_names({f"present.{i}"})
            names[f"past.{i}"] = f"present.{i}"
        apply_make_stateful_transformation(converted, names)
        arrays = {f"past.{i}": x.numpy() for i, x in enumerate(past)}

        def use(request):
            def call():
                for state in request.query_state():
                    name = next(name for name in sorted(arrays, key=len, reverse=True) if state.name.startswith(name))
                    state.state = self.openvino.Tensor(arrays[name])
                token, begin = step[0].numpy(), time.perf_counter()
                for i in range(STEPS):
                    logits = request.infer([token, np.array([[PROMPT + i]])])[0]
                    token = logits[:, -1].argmax(-1, keepdims=True)
                return torch.from_numpy(logits), time.perf_counter() - begin

            return call

        return converted, use


if __name__ == "__main__":
    serve({kind.__name__: kind for kind in (Torch, Zentorch, OpenVINO)})
