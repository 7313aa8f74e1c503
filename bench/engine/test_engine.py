#!/usr/bin/env python3
"""Ways, their turns and their figures, without any library."""

import contextlib
import io
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from engine import turns, ways  # noqa: E402


SERVED = {"SERVED": "1"}  # this file is the process


class Adder:
    """Served by the test's own process."""

    def __init__(self, first):
        print("libraries print")
        self.first, self.version = first, f"adds to {first}"

    def add(self, second):
        return self.first + second

    def fail(self):
        raise ValueError("no such case\nmore of it")

    def end(self):
        os._exit(3)


def way(name="one", first=1, **more):
    return ways.Way(name, __file__, {"kind": "Adder", "first": first}, environment=SERVED, **more)


class Ways(unittest.TestCase):
    def test_orders(self):
        one = way()
        self.assertEqual(one.version, "adds to 1")
        self.assertEqual(one.ask("add", second=2), 3)
        for do, said in (("fail", "ValueError: no such case"), ("missing", "AttributeError: .*missing"), ("end", "its process ended")):
            with self.assertRaisesRegex(RuntimeError, f"^{said}"):
                one.ask(do)
        with self.assertRaisesRegex(RuntimeError, "its process ended"):
            one.ask("add", second=2)
        one.start_again()
        self.assertEqual(one.ask("add", second=3), 4)
        one.start_again()  # only where it ended
        self.assertEqual(one.ask("add", second=4), 5)
        one.close()

    def test_skipped(self):
        order = {"kind": "Adder", "first": 1}
        with contextlib.redirect_stderr(io.StringIO()) as said:
            found = ways.start({"good": (__file__, order, sys.executable, SERVED), ("absent", "bf16"): (__file__, order, None),
                                "unknown": (__file__, {"kind": "Other"}, sys.executable, SERVED)})
            self.assertEqual(ways.ask_all(found, "fail"), {})
        self.assertEqual(list(found), ["good"])
        for line in ("SKIPPED: absent bf16: it is not installed", "SKIPPED: unknown: KeyError: 'Other'",
                     "SKIPPED: fail of good: ValueError: no such case"):
            self.assertIn(line + "\n", said.getvalue())
        found["good"].close()


class Turns(unittest.TestCase):
    def test_order(self):
        order = []
        taken = turns.take_turns("abc", 4, lambda name: order.append(name) or len(order))
        self.assertEqual("".join(order), "abcbcacababc")
        self.assertEqual(taken, {"a": [1, 6, 8, 10], "b": [2, 4, 9, 11], "c": [3, 5, 7, 12]})
        self.assertEqual(turns.take_turns("ab", 2, str.upper), {"a": ["A", "A"], "b": ["B", "B"]})

    def test_figures(self):
        times = {"base": [2.0, 4.0, 9.0], "fast": [1.0, 1.0, 3.0]}
        self.assertEqual(turns.medians(times), {"base": 4.0, "fast": 1.0})
        self.assertEqual(turns.ratios(times, "base"), {"base": 1.0, "fast": 3.0})
        self.assertEqual(turns.leads(times, "fast")["base"], [2.0, 4.0, 3.0])
        self.assertEqual(turns.quartiles([1.0, 2.0, 3.0]), (1.0, 3.0))
        self.assertEqual([turns.threads_text(n) for n in (1, 2)], ["1 thread", "2 threads"])


if __name__ == "__main__":
    ways.serve({"Adder": Adder}) if "SERVED" in os.environ else unittest.main()
