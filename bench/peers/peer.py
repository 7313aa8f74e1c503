"""An engine of the comparison, in its process: started by run.py and builds.py through engine/ways.py. It makes the operands of a case,
checks each form of the engine against float64, times it briefly, and goes on with the fastest. The methods of Peer are its orders.

The engine may be one of another revision (`folder` is the bench/peers of its tree, which knows its interface). Cases, operands and
timing are always those of this folder.

Time is the process's CPU time, which counts what other processes take from it only through the caches, and would count the help of a
second thread; where two threads are the matter, it is the wall clock's.
"""

import dataclasses
import itertools
import os
import pathlib
import sys
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from engine.ways import Way, serve  # noqa: E402

TURN = 0.012  # seconds that a turn lasts at least: shorter calls are repeated
# numpy's own threads spin for a while after the products that results are checked with, on the time of the process.
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1"}


def arguments(engine, threads=1, python=sys.executable, folder=HERE, environment=None):
    """Arguments of a Way that is this engine, but its name."""
    order = {"kind": "engine", "engine": engine, "folder": str(folder), "threads": threads}
    return HERE / "peer.py", order, python, {**ENVIRONMENT, **(environment or {})}


def output(way, folder):
    """The result of the case that a way has chosen a form for."""
    assert isinstance(way, Way)
    path = os.path.join(folder, "output.npy")
    way.ask("output", path=path)
    return np.load(path)


@dataclasses.dataclass
class Turns:
    """A timed call: run() once or `repeats` times, less `overhead`."""

    run: object
    clock: object
    seconds: float = 0.0  # of a call, about
    repeats: int = 1  # calls in a turn
    overhead: float = 0.0

    def take(self):
        """Seconds of one call, the mean of the repeats after one that warms the caches where the call is short."""
        if self.repeats > 1 or self.clock is time.perf_counter:
            self.run()
        start = self.clock()
        for _ in range(self.repeats):
            self.run()
        return (self.clock() - start) / self.repeats - self.overhead

    def settle(self):
        """Finds how many calls a turn needs."""
        self.repeats = max(1, round(TURN / self.take()))
        self.seconds = min(self.take() for _ in range(3))
        self.repeats = max(1, round(TURN / self.seconds))
        return self

    def cost(self):
        """Seconds that a turn lasts."""
        return self.seconds * (self.repeats + (self.repeats > 1 or self.clock is time.perf_counter))


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


class Peer:
    def __init__(self, engine, folder, threads):
        if threads == 1:  # processes that take turns share a CPU: cores differ by more than builds do
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        self.engine = engine_kind(engine, folder)(threads)
        self.version, self.form, self.turns, self.limit = self.engine.version(), None, None, None

    def about(self):
        """For Fovea only."""
        return {"isa": self.engine.context.isa, "threads": self.engine.context.threads}

    def choose(self, title):
        """Goes on with the fastest form that gives the right result: its label, or None, and notes about the others."""
        import cases
        import data

        self.form = self.turns = self.limit = None  # frees the memory of the last case
        case, notes = cases.named(title), []
        operands = data.Data(case)
        clock = time.perf_counter if case.threads > 1 else time.process_time
        for form in self._forms(case, operands):
            try:
                form.run()
                error = operands.error(form.output())
            except Exception as problem:  # a form this version of a library refuses: not offered
                notes.append(f"{self.engine.name} {form.label}: {str(problem).splitlines()[0][:120]}")
                continue
            if not error < operands.tolerance:
                notes.append(f"{self.engine.name} {form.label}: off by {error:.1e}, left out")
                continue
            turns = Turns(form.run, clock).settle()
            if self.turns is None or turns.seconds < self.turns.seconds:
                self.form, self.turns = form, turns
        if self.form and case.kind == "exp":  # that of one element
            tiny = dataclasses.replace(case, q_len=1)
            form = next(iter(self.engine.forms(tiny, data.Data(tiny))))
            self.turns.overhead = min(Turns(form.run, clock, repeats=2000).take() for _ in range(5))
        return {"label": self.form.label if self.form else None, "notes": notes, "cost": self.turns.cost() if self.turns else 0}

    def _forms(self, case, operands):
        """The engine's forms; where operands have copies, each call takes the next one."""
        from forms import Form

        if case.copies == 1:
            yield from filter(None, self.engine.forms(case, operands))
            return
        for forms in zip(*(self.engine.forms(case, one) for one in operands.copies())):
            if None not in forms:
                runs = itertools.cycle([form.run for form in forms])
                yield Form(forms[0].label, lambda runs=runs: next(runs)(), forms[0].output)

    def take(self):
        return self.turns.take()

    def output(self, path):
        np.save(path, self.form.output())

    # The bound of a case has turns, too, as the clock of a core changes from one to the next, and as memory is shared.

    def peak(self):
        """The FMA peak of the tier: the best of many short runs."""
        library, isa = self.engine.library, self.engine.context.isa
        runs = Turns(lambda: library.peak_run(isa), time.perf_counter)
        return library.peak_run(isa) / min(runs.take() for _ in range(20))

    def bound(self, title):
        """Reading as many bytes as the case reads, or the FMA peak; what it does in a turn, and what a turn costs."""
        import cases

        case, library, isa = cases.named(title), self.engine.library, self.engine.context.isa
        work, run = library.peak_run(isa), lambda: library.peak_run(isa)
        if case.bytes:
            readers = itertools.cycle([library.reader(np.ones(case.bytes // 4, np.float32)) for _ in range(case.copies)])
            work, run = case.bytes, lambda: next(readers)()
        self.limit = Turns(run, self.turns.clock).settle()
        return {"label": "reading" if case.bytes else "FMA peak", "work": work, "cost": self.limit.cost()}

    def take_bound(self):
        return self.limit.take()

    def matrix_product(self):
        """For PyTorch only."""
        return self.engine.matrix_product()


if __name__ == "__main__":
    serve({"engine": Peer})
