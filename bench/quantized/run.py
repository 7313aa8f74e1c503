"""Linear maps with quantized weights: Fovea and other libraries, on the same weights and x.

Each engine is a process; in a round each has its turn, and so has reading as many bytes as Fovea's weights. Printed are
medians over rounds: microseconds, GB/s of the engine's weights, how many times as fast the first line is, and with --errors the root mean
square of differences from float64 on the numbers that the weights stand for, relative to that of the products. Called by
bench/quantized.sh."""

import os
import pathlib
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from engine.turns import leads, medians, options_of, take_turns, threads_text  # noqa: E402
from engine.ways import start  # noqa: E402
from weights import FORMATS, Weights  # noqa: E402

# Names in the table, engines of peer.py, variants, and the variable of an interpreter of their own.
ENGINES = (
    ("Fovea q16", "fovea", "q16", None),
    ("Fovea q8", "fovea", "q8", None),
    ("Fovea exact", "fovea", "exact", None),
    ("reading", "reading", "", None),
    ("llama.cpp", "llama.cpp", "", None),
    ("llama.cpp repacked", "llama.cpp", "repacked", None),
    ("ik_llama.cpp", "ik_llama.cpp", "", None),
    ("PyTorch", "torch", "", "FOVEA_TORCH_PYTHON"),
    ("zentorch", "zentorch", "", "FOVEA_ZENTORCH_PYTHON"),
    ("OpenVINO", "openvino", "", None),
    ("OpenVINO int8 x", "openvino", "dynamic", None),
    ("ONNX Runtime level 1", "onnxruntime", "1", None),
    ("ONNX Runtime level 4", "onnxruntime", "4", None),
)
TURN = 0.05  # seconds


def last_level_cache():
    sizes = [path.read_text().strip() for path in pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max([int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes], default=32 << 20)


def wanted(options, form):
    """{name: arguments of its Way}"""
    environment = {key: str(options.threads) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    order = {"form": form, "rows": options.rows, "channels": options.channels, "out": options.out, "threads": options.threads,
             "memory": 4 * last_level_cache() if options.source == "memory" else 1}
    return {name: (HERE / "peer.py", {"kind": kind, "variant": variant, **order},
                   os.environ.get(variable or "", None if kind == "zentorch" else sys.executable), environment)
            for name, kind, variant, variable in ENGINES
            if not options.engines or any(word in name.lower() for word in options.engines.lower().split(","))}


def relative_errors(ways, options, form):
    """{name: what --errors adds to its line}"""
    x = np.random.default_rng(2).standard_normal((options.rows, options.channels)).astype(np.float32)
    right, notes = Weights(form, options.out, options.channels).product(x), {}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "y.npy")
        for name, way in ways.items():
            if name != "reading":
                way.ask("store", path=path)
                notes[name] = f"  error {np.sqrt(np.mean((np.load(path) - right) ** 2) / np.mean(right**2)):.1e}"
    return notes


def measure(options, form):
    ways = start(wanted(options, form))
    if not ways:
        return
    notes = relative_errors(ways, options, form) if options.errors else {}
    counts = {name: max(1, round(TURN / min(way.ask("run", count=1) for _ in range(2)))) for name, way in ways.items()}
    times = take_turns(ways, options.rounds, lambda name: ways[name].ask("run", count=counts[name]))
    print(f"{form}, {options.rows} x {options.channels} x {options.out}, from {options.source}, {threads_text(options.threads)}, "
          f"medians of {options.rounds} rounds")
    slower = medians(leads(times, next(iter(ways))))
    for name, seconds in medians(times).items():
        print(f"  {name:20} {seconds * 1e6:10.1f} us  {ways[name].ask('size') / seconds * 1e-9:6.1f} GB/s  {slower[name]:5.2f}x"
              f"{notes.get(name, '')}  {ways[name].version}", flush=True)
        ways[name].close()


def main():
    parser = options_of("bench/quantized.sh", __doc__, 11, 1)
    parser.add_argument("--formats", default=",".join(FORMATS), metavar="NAMES", help="default: %(default)s")
    parser.add_argument("--engines", default="", metavar="WORDS", help="only those whose names contain one (default: all)")
    parser.add_argument("--rows", type=int, default=1, metavar="N", help="rows of x (default 1)")
    parser.add_argument("--in", dest="channels", type=int, default=4096, metavar="N", help="input channels (default 4096)")
    parser.add_argument("--out", type=int, default=4096, metavar="N", help="output channels (default 4096)")
    parser.add_argument("--from", dest="source", choices=("memory", "cache"), default="memory",
                        help="memory (default): matrices in turn, four times the last-level cache; cache: one matrix")
    parser.add_argument("--errors", action="store_true", help="errors, too")
    options = parser.parse_args()
    for form in options.formats.split(","):
        if form not in FORMATS:
            parser.error(f"--formats: {form} is none of {', '.join(FORMATS)}")
        measure(options, form)


if __name__ == "__main__":
    main()
