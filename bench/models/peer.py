"""Another engine's line in bench/models.sh: a process of its own, as it asks for its own PyTorch, or brings threads of its own.

    peer = Peer("openvino", python)              starts the process
    seconds = peer.prepare("bert", threads=2)    converts or compiles the model
    result, seconds = peer.run()                 one call, as of cases.Case

The process is this file: it reads an order per line of standard input, as JSON, and answers each with a line.

  zentorch   torch.compile(model, backend="zentorch"), weights frozen: AMD's way. Decoding on a static cache, as what grows would be
             compiled anew for each length.
  openvino   openvino.convert_model(model); decoding with keys and values as the state of the model. All in float32.
  before     another build of Fovea: its fovea.torch.optimize(model)
  now        this build, likewise: in the process of all other ways, with their models, the same build is slower
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from line_process import LineProcess, serve  # noqa: E402


class Peer(LineProcess):
    """This side."""

    def __init__(self, name, python, environment=None):
        self.name = name
        super().__init__([python, str(HERE / "peer.py"), name], environment)
        self.version = self.ask({})["version"]

    def prepare(self, case, threads):
        self.ask({"prepare": case, "threads": threads})

    def run(self):
        import torch

        answer = self.ask({"run": True})
        time.sleep(0.01)  # its threads spin for a while
        return torch.load(answer["result"]), answer["seconds"]


# ---------------------------------------------------------------------------------------------------- the other process


class Before:
    def __init__(self):
        import fovea.torch

        import torch

        self.torch, self.optimize, self.version = torch, fovea.torch.optimize, fovea.__file__
        self.ways = {}

    def prepare(self, name, case, threads):
        self.torch.set_num_threads(threads)
        if name not in self.ways:
            self.ways = {name: case.ways(["sdpa"], self.optimize)["optimize"]}
        return self.ways[name]


class Zentorch:
    def __init__(self):
        import torch
        import zentorch

        torch._inductor.config.freezing = True
        self.torch, self.version = torch, f"{zentorch.__version__} with PyTorch {torch.__version__.split('+')[0]}"
        self.compiled = {}

    def prepare(self, name, case, threads):
        self.torch.set_num_threads(threads)
        if name in self.compiled:
            return self.compiled[name]
        self.torch._dynamo.reset()
        model = case.load("sdpa")
        compile = lambda inner: self.torch.compile(inner, backend="zentorch", dynamic=name == "minilm")
        if name == "minilm":
            case.replace(model, compile)
            call = lambda: case.call(model)
        elif name == "decode":
            call = self._steps(case, model, compile(model))
        else:
            fast = compile(model)
            call = lambda: case.call(fast)
        self.compiled = {name: call}
        return call

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


class OpenVINO:
    def __init__(self):
        import openvino
        import torch

        self.torch, self.openvino, self.version = torch, openvino, openvino.__version__.split("-")[0]
        self.converted = {}

    def prepare(self, name, case, threads):
        if name not in self.converted:
            self.converted = {name: getattr(self, f"_convert_{name}", self._convert)(case)}
        setting = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
        self.torch.set_num_threads(threads)
        converted, use = self.converted[name]
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


class Server:
    """The other side. Engines are made at the first order, so that what fails is an answer."""

    def __init__(self, kind):
        self.kind, self.engine, self.call = kind, None, None
        self.result = tempfile.NamedTemporaryFile(suffix=".pt")
        # The models' and the tests' packages of run.py, where this interpreter has none of its own.
        sys.path += [str(HERE.parents[1] / "python/tests/support"), *filter(None, os.environ.get("FOVEA_MODELS_PATH", "").split(":"))]
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

    def answer(self, order):
        if self.engine is None:
            self.engine = {"zentorch": Zentorch, "openvino": OpenVINO, "before": Before, "now": Before}[self.kind]()
        import torch
        import transformers
        from cases import CASES, once

        transformers.logging.set_verbosity_error()
        answer = {"version": self.engine.version}
        with torch.inference_mode() if self.kind in ("before", "now") else torch.no_grad():
            if "prepare" in order:
                self.call = self.engine.prepare(order["prepare"], CASES[order["prepare"]](), order["threads"])
            elif "run" in order:
                found, answer["seconds"] = once(self.call)
                torch.save(found, self.result.name)
                answer["result"] = self.result.name
        return answer


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        serve(Server(sys.argv[1]).answer)
