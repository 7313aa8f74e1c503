"""A process that reads an order per line of standard input, as JSON, and answers each with a line."""

import json
import os
import subprocess
import sys


class LineProcess:
    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, env={**os.environ, **(environment or {})}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, order):
        """The answer; RuntimeError, with what it says, if the order failed or the process ended."""
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or '{"failed": "its process ended"}')
        except OSError:
            answer = {"failed": "its process ended"}
        if "failed" in answer:
            raise RuntimeError(answer["failed"])
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def serve(answer):
    """In such a process: answer(order) is the answer to each. What libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = answer(json.loads(line))
        except BaseException as error:  # as pytest's, of a model that is not here
            found = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        print(json.dumps(found), file=answers, flush=True)
