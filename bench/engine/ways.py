"""Ways of computing that are compared. Each is a process, so that no library's threads, memory or settings touch another's.

    way = Way("torch", SCRIPT, {"kind": "Torch", "threads": 2})     starts SCRIPT, which calls serve({"Torch": Torch, ...})
    way.version                                                     of the Torch(threads=2) that it made
    way.ask("run", count=3)                                         the answer of its run(count=3), as JSON can say it

Orders and answers are a line of JSON each. An order that fails raises RuntimeError here, with the reason.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys


class Way:
    def __init__(self, name, script, start, python=sys.executable, environment=None):
        if not python or not shutil.which(python):
            raise RuntimeError("it is not installed")
        self.name, self.command, self.first = name, [str(python), str(script)], start
        self.environment = {**os.environ, **(environment or {})}
        self.start()

    def start(self):
        self.ended = False
        self.process = subprocess.Popen(self.command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.version = self.ask("start", **self.first)
        except RuntimeError:
            self.close()
            raise

    def start_again(self):
        """Where its process ended: a library that crashes in one case may take part in the next."""
        if self.ended:
            self.close()
            self.start()

    def ask(self, do, **arguments):
        line = ""
        with contextlib.suppress(OSError):
            self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        self.ended = not line
        answer = json.loads(line or '{"failed": "its process ended"}')
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer["answer"]

    def close(self):
        with contextlib.suppress(OSError):  # the process ended by itself
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def skipped(what, problem):
    """Says on standard error that something is not measured, and why."""
    print(f"SKIPPED: {what}: {problem}", file=sys.stderr, flush=True)


def start(wanted):
    """{name: Way} of those in {name: arguments of Way but the name} that start; the others are SKIPPED."""
    ways = {}
    for name, arguments in wanted.items():
        try:
            ways[name] = Way(name, *arguments)
        except (RuntimeError, OSError) as problem:
            skipped(name if isinstance(name, str) else " ".join(name), problem)
    return ways


def ask_all(ways, do, **arguments):
    """{name: answer} of the ways that can follow an order; the others are SKIPPED."""
    answers = {}
    for name, way in ways.items():
        try:
            answers[name] = way.ask(do, **arguments)
        except RuntimeError as problem:
            skipped(f"{' '.join([do, *map(str, list(arguments.values())[:1])])} of {name}", problem)
    return answers


def serve(kinds):
    """In the process: makes kinds[kind](...) at the first order, and calls its methods at the next. What libraries print goes to
    standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    made = None
    for line in sys.stdin:
        order = json.loads(line)
        do = order.pop("do")
        try:
            if do == "start":
                made = kinds[order.pop("kind")](**order)
                found = {"answer": made.version}
            else:
                found = {"answer": getattr(made, do)(**order)}
        except BaseException as error:  # pytest's, of a model that is absent, is no Exception
            found = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(found), file=answers, flush=True)
