"""Linear maps with quantised weights: Fovea beside other libraries, on the same weights and x.

Each engine has a process of its own; in a round each has its turn, and so has reading as many bytes as Fovea's weights. Printed are
medians over rounds: microseconds, GB/s of the engine's weights, how many times as fast the first line is, and with --errors the root mean
square of differences from float64 on the numbers that the weights stand for, relative to that of the products. Called by
bench/quantised.sh."""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from line_process import LineProcess  # noqa: E402
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


def start(options, name, kind, variant, variable, form):
    python = os.environ.get(variable or "", sys.executable)
    if variable == "FOVEA_ZENTORCH_PYTHON" and variable not in os.environ:
        raise RuntimeError("not installed")
    environment = {key: str(options.threads) for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    engine = LineProcess([python, str(HERE / "peer.py")], environment)
    engine.name = name
    memory = 4 * last_level_cache() if options.source == "memory" else 1
    order = {"kind": kind, "variant": variant, "format": form, "rows": options.rows, "in": options.channels, "out": options.out,
             "threads": options.threads, "memory": memory}
    engine.about = engine.ask({"prepare": order})
    return engine


def relative_error(engine, right, folder):
    path = os.path.join(folder, "y.npy")
    engine.ask({"output": path})
    return float(np.sqrt(np.mean((np.load(path) - right) ** 2) / np.mean(right**2)))


def measure(options, form):
    engines = []
    for name, *what in ENGINES:
        if options.engines and not any(word in name.lower() for word in options.engines.lower().split(",")):
            continue
        try:
            engines.append(start(options, name, *what, form))
        except (RuntimeError, OSError) as problem:
            print(f"SKIPPED: {name} {form}: {problem}", file=sys.stderr)
    if options.errors:
        right = Weights(form, options.out, options.channels).product(
            np.random.default_rng(2).standard_normal((options.rows, options.channels)).astype(np.float32))
        with tempfile.TemporaryDirectory() as folder:
            for engine in engines:
                engine.error = None if engine.name == "reading" else relative_error(engine, right, folder)
    counts = [max(1, round(TURN / min(engine.ask({"run": 1})["seconds"] for _ in range(2)))) for engine in engines]
    rounds = [[e.ask({"run": n})["seconds"] for e, n in zip(engines, counts)] for _ in range(options.rounds)]
    print(f"{form}, {options.rows} x {options.channels} x {options.out}, from {options.source}, {options.threads} threads, "
          f"medians of {options.rounds} rounds")
    for i, engine in enumerate(engines):
        seconds = statistics.median(r[i] for r in rounds)
        ratio = statistics.median(r[i] / r[0] for r in rounds)
        error = f"  error {engine.error:.1e}" if options.errors and engine.error is not None else ""
        print(f"  {engine.name:20} {seconds * 1e6:10.1f} us  {engine.about['bytes'] / seconds * 1e-9:6.1f} GB/s  {ratio:5.2f}x{error}  "
              f"{engine.about['version']}", flush=True)
        engine.close()


def main():
    parser = argparse.ArgumentParser(prog="bench/quantised.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--formats", default=",".join(FORMATS), metavar="NAMES", help="default: %(default)s")
    parser.add_argument("--engines", default="", metavar="WORDS", help="only those whose names contain one (default: all)")
    parser.add_argument("--rows", type=int, default=1, metavar="N", help="rows of x (default 1)")
    parser.add_argument("--in", dest="channels", type=int, default=4096, metavar="N", help="input channels (default 4096)")
    parser.add_argument("--out", type=int, default=4096, metavar="N", help="output channels (default 4096)")
    parser.add_argument("--from", dest="source", choices=("memory", "cache"), default="memory",
                        help="memory (default): matrices in turn, four times the last-level cache; cache: one matrix")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--rounds", type=int, default=11, metavar="N", help="default 11")
    parser.add_argument("--errors", action="store_true", help="errors, too")
    options = parser.parse_args()
    for form in options.formats.split(","):
        if form not in FORMATS:
            parser.error(f"--formats: {form} is none of {', '.join(FORMATS)}")
        measure(options, form)


if __name__ == "__main__":
    main()
