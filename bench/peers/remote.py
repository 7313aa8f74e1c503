"""An engine in a process of its own, which takes turns with those of other processes: another build of the library, or a
package that asks for an environment of its own.

    engine = Remote("fovea", python, folder=..., environment=...)     starts the process
    contestant = engine.choose(case, notes)                           as turns.choose()
    contestant.take(), .output()                                      as turns.Contestant

The process is this file: it reads an order per line of standard input, as JSON, and answers each with a line. Its
engine may be one of another revision of this project (`folder` is the bench/peers of its tree, which knows its
interface); cases, operands and timing are always those beside this file.
"""

import argparse
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from line_process import LineProcess, serve  # noqa: E402

# numpy's own threads spin for a while after the products that results are checked with, on the time of the process.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}


def stay_on_one_cpu():
    """Processes that take turns share a CPU: cores differ by more than builds do."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


class Remote(LineProcess):
    """This side. Its forms are chosen and timed by the other."""

    def __init__(self, name, python=sys.executable, folder=HERE, threads=1, environment=None):
        self.name = name
        command = [str(python), str(HERE / "remote.py"), "--engine", name, "--folder", str(folder), "--threads", str(threads)]
        super().__init__(command, {**ENVIRONMENT, **(environment or {})})
        self.about = self.ask({"about": True})

    def ask(self, order):
        try:
            return super().ask(order)
        except RuntimeError as error:
            raise RuntimeError(f"{self.name}: {error}") from None

    def version(self):
        return self.about["version"]

    def choose(self, case, notes):
        answer = self.ask({"choose": case.title})
        notes += answer["notes"]
        return RemoteContestant(self, **answer["chosen"]) if answer["chosen"] else None


class RemoteContestant:
    def __init__(self, engine, label, cost):
        self.engine, self.label, self.turn_cost = engine, label, cost

    def take(self):
        return self.engine.ask({"take": True})["seconds"]

    def cost(self):
        return self.turn_cost

    def output(self):
        import numpy

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "output.npy")
            self.engine.ask({"output": path})
            return numpy.load(path)


# -------------------------------------------------------------------------------------------------- the other side --


def engine_kind(name, folder):
    """The class of an engine, by the modules in the folder. Those of another revision are then forgotten."""
    sys.path.insert(0, folder)
    import engines

    kind = next(kind for kind in engines.ENGINES if kind.name == name)
    if pathlib.Path(folder).resolve() != HERE:
        for module in [n for n, m in sys.modules.items() if (getattr(m, "__file__", None) or "").startswith(folder)]:
            del sys.modules[module]
    sys.path.pop(0)
    return kind


class Server:
    def __init__(self, engine, threads):
        if threads == 1:
            stay_on_one_cpu()
        self.engine, self.contestant = engine(threads), None

    def answer(self, order):
        import cases
        import data
        import numpy
        import turns

        if "about" in order:
            return {"version": self.engine.version()}
        if "choose" in order:
            self.contestant, notes = None, []  # frees the memory of the last case
            case = next(case for case in cases.CASES if case.title == order["choose"])
            best = self.contestant = turns.choose(self.engine, case, data.data_of(case), notes)
            return {"notes": notes, "chosen": {"label": best.label, "cost": best.cost()} if best else None}
        if "output" in order:
            numpy.save(order["output"], self.contestant.output())
            return {}
        return {"seconds": self.contestant.take()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    server = None

    def answer(order):
        nonlocal server
        server = server or Server(engine_kind(options.engine, options.folder), options.threads)
        return server.answer(order)

    serve(answer)


if __name__ == "__main__":
    main()
