"""The engines that are compared (forms.py says what an engine is), "fovea" first. Every form of each is checked and timed briefly, and
the fastest goes on, so that nobody is measured at less than that. "float32" stands in every case of 16 bits, too."""

from engine_fovea import Float32, Fovea, Sleef
from engine_onnxruntime import OnnxRuntime
from engine_openblas import OpenBlas
from engine_openvino import OpenVino
from engine_torch import Torch, Zentorch

ENGINES = (Fovea, Torch, OnnxRuntime, OpenVino, Zentorch, OpenBlas, Sleef, Float32)
