"""How ways are compared: in each round every way has its turn, so what else the machine does falls on all alike. Figures are
medians over rounds, of times and of the ratios of two times of a round."""

import argparse
import statistics
import time


def take_turns(names, rounds, take, rest=0.0):
    """{name: [take(name) of each round]}, each after `rest` seconds, in which other ways' threads stop to spin for work. The order
    rotates; nobody has two turns in a row, of which the second would find its operands in the cache."""
    names, taken = list(names), {name: [] for name in names}
    for k in range(rounds):
        shift = k % len(names) if len(names) > 2 else 0
        for name in names[shift:] + names[:shift]:
            time.sleep(rest)
            taken[name].append(take(name))
    return taken


def medians(times):
    return {name: statistics.median(one) for name, one in times.items()}


def paired(times, base):
    """{name: [the ratio of the base's time to it, of each round]}: how many times as fast as the base it is."""
    return {name: [theirs / own for own, theirs in zip(one, times[base], strict=True)] for name, one in times.items()}


def ratios(times, base):
    return medians(paired(times, base))


def leads(times, base):
    """The other way round: {name: [how many times as fast the base is as it, of each round]}."""
    return {name: [1 / one for one in found] for name, found in paired(times, base).items()}


def quartiles(values):
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def threads_text(count):
    return f"{count} thread{'s' * (count != 1)}"


def options_of(prog, doc, rounds, threads, threads_type=int):
    """A parser with --rounds and --threads, and these defaults."""
    parser = argparse.ArgumentParser(prog=prog, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N", help="rounds of each case (default %(default)s)")
    if threads is not None:
        parser.add_argument("--threads", type=threads_type, default=threads, metavar="N", help="threads of each way (default %(default)s)")
    return parser
