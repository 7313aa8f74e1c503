"""How an engine is measured: each of its forms is checked against float64 and timed briefly, the fastest goes on, and then
it takes turns with others (take_turns() has their order).

Time is the process's CPU time, which counts what other processes take from it only through the caches, and would count
the help of a second thread; where two threads are the matter, it is the wall clock's, and threads are placed: see
place_threads().
"""

import dataclasses
import itertools
import os
import time

from data import Data
from forms import Form

TURN = 0.012  # seconds that a turn lasts at least: shorter calls are repeated
REST = 0.1  # seconds; the threads of ONNX Runtime spin for about 0.06
CPUS = sorted(os.sched_getaffinity(0))


def place_threads():
    """The caller's thread on the first CPU, all others, those of every library's pool, on the second: threads that wait
    for work by spinning are else at the mercy of the scheduler, which may keep both on one CPU for long."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), {CPUS[int(thread) != os.getpid()]})


def free_thread():
    """The caller's thread on any CPU, so that the threads which it makes, and their number, are not what was placed."""
    os.sched_setaffinity(0, CPUS)


def clock_of(case):
    return time.perf_counter if case.threads > 1 else time.process_time


def turn(form, repeats, clock=time.process_time):
    """Seconds of one call, the mean of `repeats` after one that warms the caches where the call is short. By the wall
    clock there is always one, after a rest in which other libraries' threads stop to spin for more work."""
    if clock is time.perf_counter:
        time.sleep(REST)
    if repeats > 1 or clock is time.perf_counter:
        form.run()
    start = clock()
    for _ in range(repeats):
        form.run()
    return (clock() - start) / repeats


@dataclasses.dataclass
class Contestant:
    form: Form
    seconds: float  # of a call, about
    repeats: int  # calls in a turn
    clock: object = time.process_time
    overhead: float = 0.0  # seconds of a call that do not count

    @property
    def label(self):
        return self.form.label

    def output(self):
        return self.form.output()

    def take(self):
        """Takes a turn; returns the seconds of a call."""
        return turn(self.form, self.repeats, self.clock) - self.overhead

    def cost(self):
        """Seconds that a turn lasts."""
        wall = self.clock is time.perf_counter
        return self.seconds * (self.repeats + (self.repeats > 1 or wall)) + REST * wall


def overhead(engine, case):
    """Seconds that a call of an exp takes before it comes to the array: those of one element."""
    tiny = dataclasses.replace(case, q_len=1)
    form = next(iter(engine.forms(tiny, Data(tiny))))
    return min(turn(form, 2000) for _ in range(5))


def forms_of(engine, case, data):
    """What an engine offers for a case; where operands have copies, each call takes the next one."""
    if case.copies == 1:
        yield from engine.forms(case, data)
        return
    for forms in zip(*(engine.forms(case, one) for one in data.copies())):
        runs = itertools.cycle([form.run for form in forms if form])
        yield None if None in forms else Form(forms[0].label, lambda runs=runs: next(runs)(), forms[0].output)


def choose(engine, case, data, notes):
    """The engine's fastest form that gives the right result, as Contestant; None if it has none."""
    best, clock, pair = None, clock_of(case), case.tier == "pair"
    if pair:
        free_thread()
    for form in forms_of(engine, case, data):
        if form is None:
            continue
        try:
            form.run()
            if pair:
                place_threads()
            error = data.error(form.output())
        except Exception as problem:  # a form this version of a library refuses: not offered
            notes.append(f"{engine.name} {form.label}: {str(problem).splitlines()[0][:120]}")
            continue
        if not error < data.tolerance:
            notes.append(f"{engine.name} {form.label}: off by {error:.1e}, left out")
            continue
        repeats = max(1, round(TURN / turn(form, 1, clock)))
        seconds = min(turn(form, repeats, clock) for _ in range(3))
        if best is None or seconds < best.seconds:
            best = Contestant(form, seconds, max(1, round(TURN / seconds)), clock)
        if pair:
            free_thread()
    if pair:
        place_threads()
    if best and case.kind == "exp":
        best.overhead = overhead(engine, case)
    return best


def take_turns(contestants, rounds):
    """Rounds in which each contestant of {name: Contestant} has its turn, in an order that rotates; {name: [seconds]}.
    Nobody has two turns in a row, of which the second would find its operands in the cache."""
    names, times = list(contestants), {name: [] for name in contestants}
    for k in range(rounds):
        shift = k % len(names) if len(names) > 2 else 0
        for name in names[shift:] + names[:shift]:
            times[name].append(contestants[name].take())
    return times
