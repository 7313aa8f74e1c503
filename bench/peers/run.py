"""Fovea beside ONNX Runtime, PyTorch, OpenVINO, zentorch and OpenBLAS. Called by bench/peers.sh, which builds the library
and finds Python; writes peers.md, peers.svg and peers.json to the folder of this CPU in docs/peers, and
docs/peers/README.md, where all CPUs stand side by side. Exit status 1 if a result of Fovea's is wrong.

  cases.py    what is compared                    engines.py  by whom; engine_*.py, encoder_*.py: in which forms
  data.py     operands and exact results          api.py      Fovea from Python; structs.py: what it passes
  worker.py   measures, one process per tier      turns.py    how an engine is measured
  remote.py   an engine in another process        report.py   the table; chart.py: the picture
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import cases
import chart
import report
from remote import ENVIRONMENT

HERE = pathlib.Path(__file__).resolve().parent
# What holds each library to AVX2: read when the library is loaded, so a process of its own.
HELD_TO_AVX2 = {
    "FOVEA_ISA": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
}


def cpu_fields():
    """What the system says of its first CPU."""
    fields = {}
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    return fields


def cpu_name(fields):
    """The CPU as the system knows it, with the numbers that tell a generation where the name does not."""
    if "CPU part" in fields:
        return f"Arm (implementer {fields.get('CPU implementer', '?')}, part {fields['CPU part']})"
    name = fields.get("model name", "unknown CPU")
    return f"{name} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"


def cpu_folder(fields):
    """The same as the name of a folder: intel-family6-model207."""
    if "CPU part" in fields:  # Arm
        return f"arm-{fields.get('CPU implementer', '0')}-{fields['CPU part']}"
    vendor = fields.get("vendor_id", "unknown")
    vendor = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(vendor, "".join(filter(str.isalnum, vendor)).lower())
    return f"{vendor}-family{fields.get('cpu family', '0')}-model{fields.get('model', '0')}"


def write(folder, chosen, run):
    """The page of a CPU, and the one beside it that names all."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "peers.md").write_text(report.markdown(chosen, run))
    (folder / "peers.svg").write_text(chart.svg(chosen, run))
    (folder / "peers.json").write_text(json.dumps(run, indent=1) + "\n")
    runs = {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.parent.glob("*/peers.json"))}
    (folder.parent / "README.md").write_text(report.index(cases.CASES, runs))


def merged(run, folder):
    """What the CPU's page has, with these cases measured anew; None if it was measured with other versions."""
    path = folder / "peers.json"
    if not path.exists():
        return run
    old = json.loads(path.read_text())
    for tier, summary in run["tiers"].items():
        if old["tiers"].get(tier, summary)["versions"] != summary["versions"]:
            return None
    return {**run, "tiers": {**old["tiers"], **run["tiers"]}, "cases": {**old["cases"], **run["cases"]}}


class Progress:
    """One line per case on standard error, with the time that is probably left."""

    def __init__(self, chosen):
        self.begin, self.done, self.count = time.monotonic(), 0.0, 0
        self.costs = {c.title: self.cost(c) for c in chosen}

    @staticmethod
    def cost(case):
        """About how long a case takes, in units of its own: long attentions their work, short ones a fixed time."""
        if case.kind == "encoder":
            return 10.0
        full = case.q_len * case.kv_len * case.batch * case.heads * case.head_dim
        return 2.0 + (0 if case.kind == "exp" else full / 4e8)

    def start(self, title):
        left = ""
        if self.done:
            pace = (time.monotonic() - self.begin) / self.done
            left = f", about {pace * (sum(self.costs.values()) - self.done):.0f} s left"
        self.count += 1
        print(f"[{self.count}/{len(self.costs)}{left}] {title}", file=sys.stderr, flush=True)

    def finish(self, title):
        self.done += self.costs[title]


def run_tier(tier, options, progress):
    """Runs the worker of a tier; returns ({title: record}, summary or None, exit status)."""
    command = [sys.executable, str(HERE / "worker.py"), "--tier", tier]
    command += ["--only", options.only, "--rounds", str(options.rounds)]
    environment = {**os.environ, **ENVIRONMENT, **(HELD_TO_AVX2 if tier == "avx2" else {})}
    records, summary = {}, None
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
        for line in worker.stdout:
            try:
                message = json.loads(line)
            except ValueError:  # what a library prints by itself
                print(line, end="", file=sys.stderr)
                continue
            if "start" in message:
                progress.start(message["start"])
            elif "summary" in message:
                summary = message["summary"]
            else:
                records[message.pop("title")] = message
                progress.finish(list(records)[-1])
    return records, summary, worker.returncode


def main():
    parser = argparse.ArgumentParser(prog="bench/peers.sh", description=__doc__.split(".")[0] + ".")
    parser.add_argument("--only", default="*", metavar="GLOB", help="cases whose title or name matches; printed only")
    parser.add_argument("--update", action="store_true", help="with --only: writes these cases into the page that is there")
    parser.add_argument("--rounds", type=int, default=25, metavar="N", help="most rounds of a case (default 25)")
    parser.add_argument("--output", default=str(HERE.parents[1] / "docs" / "peers"), metavar="FOLDER",
                        help="has a folder for each CPU (default docs/peers)")
    options = parser.parse_args()
    chosen = [case for tier in cases.TIERS for case in cases.select(options.only, tier)]
    if not chosen:
        titles = (case.title for tier in cases.TIERS for case in cases.select("*", tier))
        print(f"no case matches {options.only}; there are:", *titles, sep="\n  ", file=sys.stderr)
        return 2
    if not cases.encoder.MODEL.exists():
        print(f"cases of the encoder are left out: there is no {cases.encoder.MODEL}; make run fetches it", file=sys.stderr)
    progress, records, summaries, status = Progress(chosen), {}, {}, 0
    for tier in cases.TIERS:
        found, summary, code = run_tier(tier, options, progress)
        records.update(found)
        if summary:
            summaries[tier] = summary
        if code != 0:
            print(f"the worker of tier {tier} ended with status {code}", file=sys.stderr)
            status = 1
    if not summaries:
        return 1
    fields = cpu_fields()
    run = {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu_name(fields),
        "command": f"make bench-peers PEERS=\"{os.environ['FOVEA_PEERS']}\"",
        "tiers": summaries,
        "cases": records,
    }
    print(report.markdown(chosen, run) if options.only != "*" else report.table(chosen, run))
    if status != 0:
        print("not written: a worker ended with an error (above), so figures are wrong or missing", file=sys.stderr)
        return status
    folder = pathlib.Path(options.output) / cpu_folder(fields)
    if options.update:
        run = merged(run, folder)
        if not run:
            print(f"not written: {folder}/peers.json has figures of other versions; measure all cases", file=sys.stderr)
            return 1
    if options.only == "*" or options.update:
        write(folder, cases.CASES, run)
        print(f"written: {folder}/peers.md, peers.svg, peers.json; {folder.parent}/README.md", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
