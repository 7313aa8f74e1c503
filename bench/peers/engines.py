"""The engines that are compared (forms.py says what an engine is), "fovea" first. The worker checks every form of each, times
each briefly and goes on with the fastest, so that nobody is measured at less than that."""

from engine_fovea import Float32, Fovea, Sleef
from engine_onnxruntime import OnnxRuntime
from engine_openblas import OpenBlas
from engine_openvino import OpenVino
from engine_torch import Torch, Zentorch

BESIDE_HALVES = Float32  # what every case of 16 bits is compared with, too
ENGINES = (Fovea, Torch, OnnxRuntime, OpenVino, Zentorch, OpenBlas, Sleef)
