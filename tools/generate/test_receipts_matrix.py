#!/usr/bin/env python3
"""test_receipts_matrix.py PROGRAM [MPIRUN]: whatever makes a receipt of fovea-generate, it says the same, and whatever
checks it, it verifies; by verify.py, too, where the Python package fovea is. Run by ctest, which sets SCRATCH, an own
folder. FOVEA_TEST_SCALE of 1 or more asks for the whole matrix of tiers, threads, ranks, types of caches and weights,
which takes minutes; else a part runs."""

import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "models")]
from model_files import wide_llama  # noqa: E402

try:
    import verify as second
except ImportError:
    second = None

PROGRAM, MPIRUN = sys.argv[1], sys.argv[2:]
ALL = float(os.environ.get("FOVEA_TEST_SCALE", 0)) >= 1
SCRATCH = os.environ["SCRATCH"]
SAMPLED = ["--plain", "--type", "f32", "--tokens", "12", "--temperature", "1.5", "--top-k", "6", "--seed", "4"]
LONG = "ab" * 530  # tokens, which go through the layers in two chunks
ANSWERS = [[LONG], ["--parallel", "3", "--file", "lines"]]
CACHES = ["f32", "bf16", "int8", "int4"] if ALL else ["f32", "int8"]
WEIGHTS = [["q4_k.gguf", "--arithmetic", "q16"], ["q4_k.gguf", "--arithmetic", "exact"]]
if ALL:
    WEIGHTS.append(["f32.gguf"])


def run(way, *arguments):
    tier, command = way
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, env={**os.environ, "FOVEA_ISA": tier})
    return done.returncode, done.stdout, done.stderr.strip()


def ways():
    """(tier, command) of all that this machine has."""
    tiers = []
    for tier in "neon", "avx512", "avx2", "scalar":
        status, said, wrong = run((tier, [PROGRAM]), "--model", "f32.gguf", "--tokens", "1", "ab")
        assert status == 0 or "FOVEA_ISA" in wrong, wrong
        if f"\n{tier}, " in said:  # one of another architecture is scalar
            tiers.append(tier)
        elif ALL:
            print(f"SKIPPED: {tier}: not on this CPU")
    if not ALL:
        return [(tier, [PROGRAM, "--threads", n]) for tier, n in ((tiers[0], "1"), (tiers[0], "2"), ("scalar", "2"))]
    found = [(tier, [PROGRAM, "--threads", n]) for tier in tiers for n in "123"]
    for ranks in range(1, 5) if MPIRUN else []:
        command = [*MPIRUN, "-n", str(ranks), PROGRAM, "--mpi", "--threads", "1"]
        found.append((tiers[ranks % len(tiers)], command))
    if not MPIRUN:
        print("SKIPPED: ranks: no MPI")
    return found


def main():
    shutil.rmtree(SCRATCH, ignore_errors=True)
    os.makedirs(SCRATCH)
    os.chdir(SCRATCH)
    for name in "f32", "q4_k":
        pathlib.Path(name + ".gguf").write_bytes(wide_llama(name == "q4_k"))
    pathlib.Path("lines").write_text(f"ab\n{LONG[:90]}\nsab\n")
    made, verified, by_both, rejected, everyone = 0, 0, 0, [], ways()
    for number, (cache, weights, answers) in enumerate(itertools.product(CACHES, WEIGHTS, ANSWERS)):
        said = None
        for i, way in enumerate(everyone):
            pathlib.Path("receipt").unlink(missing_ok=True)
            options = ["--cache", cache, "--model", *weights, *SAMPLED, *answers]
            status, _, wrong = run(way, "--receipt", "receipt", *options)
            assert status == 0, (way, cache, weights, wrong)
            receipt = json.loads(pathlib.Path("receipt").read_text())
            made += 1
            del receipt["made"], receipt["sha256"]
            said = said or receipt
            assert receipt == said, (way, cache, weights, answers, "another receipt than that of", everyone[0])
            by = everyone[(i + 1 + number) % len(everyone)]
            status, _, wrong = run(by, "--verify", "receipt", "--model", weights[0])
            verified += status == 0
            if status != 0:
                rejected.append((way, by, cache, weights, wrong))
        if second is not None:
            status, wrong = second.verify("receipt", weights[0])
            assert status == 0, (cache, weights, answers, wrong)
            by_both += 1
    print(f"{len(everyone)} ways; receipts: {made} made, {verified} verified, {len(rejected)} falsely rejected", end="; ")
    print(f"{by_both} by both verifiers")
    assert not rejected, rejected[:3]


main()
