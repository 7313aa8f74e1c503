#!/usr/bin/env python3
"""mca.py: models the inner loops of the 64-bit Arm kernels by llvm-mca, for machines that are not here (make mca).

    bench/mca.py --build build/aarch64 [--x86 build/release] [--least 90]

Takes loops from the objects of the build as they are, gives each to llvm-mca for each core, and prints cycles and
the bound: the cycles that the loop's multiply-adds alone would take at the rate that the core's model has for independent ones.
Each loop is the innermost one of its kernel with most multiply-adds and fewest other instructions, so a full register
tile of a product, and softmax without a mask (16 keys). "limit" is the resource that is busiest, with its share
of the cycles. (LLVM takes its Cortex-A57 for cortex-a76.)

Then the instructions that products execute for each flop, counted by qemu (qemu_count.c, call_kernel.c), and those of
the AVX2 kernels of --x86, whose vectors have twice the lanes.

Exit status 1 where a full tile of a product, which both scores and values are, falls short of --least percent of the bound
on neoverse-n1 or neoverse-v1, or executes more instructions for a multiply-add than AVX2's best. The model knows units,
latencies and dispatch; of caches and memory it knows nothing.
"""
import argparse
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys

CORES = ["cortex-a76", "neoverse-n1", "neoverse-v1", "neoverse-v2", "apple-m1"]
KEYS_16 = 24  # multiply-adds of exp for 16 keys; rows of few keys have longer loops, which hold whole rows
HELD = ["neoverse-n1", "neoverse-v1"]  # those that --least is held against
GEMM = ["multiply_f32_f32_6x16", "multiply_f32_f32_4x24", "multiply_f32_f32_8x12"]
PAIRS = ["multiply_bf16x2_bf16x2_6x16", "multiply_f16x2_f16x2x4_6x16"]  # each instruction multiplies as many elements as one of gemm
REST = ["softmax_f32_1x16", "exp_f32_1x4"]
AVX2 = ["multiply_f32_f32_6x16", "multiply_f32_f32_4x24", "multiply_f32_f32_3x32"]
BRANCH = re.compile(r"^(b\.\w+|cbn?z|tbn?z|j\w+)$")
ADD_MULTIPLY = re.compile(r"^(fmla|fmls|bfmlal[bt]|fmlal2?|vfn?m(add|sub)\d+ps)$")
FEATURES = "+bf16,+fp16fml"


def newest(program):
    """The program's newest version on the path, which Debian names PROGRAM-19."""
    found = glob.glob(f"/usr/bin/{program}-[0-9]*")
    found.sort(key=lambda path: int(path.rsplit("-", 1)[1]), reverse=True)
    return found[0] if found else shutil.which(program)


def disassemble(path):
    """[(address, operation, operands)] of an object."""
    text = subprocess.run([newest("llvm-objdump"), "-d", "--no-show-raw-insn", f"--mattr={FEATURES}", path],
                          check=True, capture_output=True, text=True).stdout
    code = []
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line)
        if match:
            code.append((int(match[1], 16), match[2], match[3].split(" <")[0].split("//")[0].strip()))
    return code


def hottest_loop(path, most):
    """The innermost loop with most multiply-adds, at most that many."""
    code = disassemble(path)
    at = {address: i for i, (address, _, _) in enumerate(code)}
    loops = []
    for i, (address, operation, operands) in enumerate(code):
        target = re.search(r"0x([0-9a-f]+)$", operands) if BRANCH.match(operation) else None
        if target and int(target[1], 16) <= address and int(target[1], 16) in at:
            loops.append((at[int(target[1], 16)], i))
    inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
    straight = [code[first:last + 1] for first, last in inner
                if not any(BRANCH.match(operation) for _, operation, _ in code[first:last])]
    return max((loop for loop in straight if multiply_adds(loop) <= most),
               key=lambda loop: (multiply_adds(loop), -len(loop)))


def multiply_adds(loop):
    return sum(1 for _, operation, _ in loop if ADD_MULTIPLY.match(operation))


def assembly(loop):
    lines = ["top:"]
    for _, operation, operands in loop:
        if BRANCH.match(operation):
            operands = re.sub(r"0x[0-9a-f]+$", "top", operands)
        lines.append(f"{operation} {operands}")
    return "\n".join(lines) + "\n"


def model(text, core):
    """Cycles for one pass, and the busiest resource with its share of them."""
    passes = 200
    run = subprocess.run([newest("llvm-mca"), "-mtriple=aarch64-linux-gnu", f"-mcpu={core}", f"-mattr={FEATURES}",
                          f"-iterations={passes}", "-json"],
                         input=text, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"llvm-mca for {core}: {run.stderr.strip()}")
    report = json.loads(run.stdout)
    region = report["CodeRegions"][0]
    summary = region["SummaryView"]
    cycles = summary["TotalCycles"] / passes
    names = report["TargetInfo"]["Resources"]
    pressure = {"dispatch": summary["TotaluOps"] / passes / summary["DispatchWidth"]}
    instructions = len(region["Instructions"])
    for entry in region["ResourcePressureView"]["ResourcePressureInfo"]:
        if entry["InstructionIndex"] == instructions:  # the row of sums
            pressure[names[entry["ResourceIndex"]]] = entry["ResourceUsage"]
    busiest = max(pressure, key=pressure.get)
    return cycles, re.sub(r"\W.*", "", busiest), pressure[busiest] / cycles


def known(core):
    """Does this llvm-mca know the core?"""
    run = subprocess.run([newest("llvm-mca"), "-mtriple=aarch64-linux-gnu", f"-mcpu={core}"], input="nop\n",
                         capture_output=True, text=True)
    return "not a recognized processor" not in run.stderr


def rate(core):
    """Multiply-adds a cycle where nothing else is in the way."""
    count = 24
    text = "".join(f"fmla v{i}.4s, v30.4s, v31.s[0]\n" for i in range(count))
    return count / model(text, core)[0]


def folder(build, tier):
    path = os.path.join(build, "kernels", "CMakeFiles", f"fovea_kernels_{tier}.dir", tier)
    if not os.path.isdir(path):
        raise SystemExit(f"{path} is not there: build it first")
    return path


def build_plugin(build):
    plugin = os.path.abspath(os.path.join(build, "qemu_count.so"))
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "qemu_count.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", source, "-o", plugin], check=True)
    return plugin


def instructions_per_flop(plugin, build, machine, name):
    """Counts of a kernel's calls: the difference of two runs."""
    counts = []
    for calls in (10, 110):
        run = subprocess.run([f"qemu-{machine}", "-cpu", "max", "-plugin", plugin,
                              os.path.join(build, "bench", "call-kernel"), name, str(calls)],
                             check=True, capture_output=True, text=True)
        counts.append(int(re.search(r"instructions (\d+)", run.stderr)[1]))
    return (counts[1] - counts[0]) / 100 / int(re.search(r"flops (\d+)", run.stdout)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", required=True, help="build tree for 64-bit Arm")
    parser.add_argument("--x86", help="build tree for x86-64, to compare instruction counts")
    parser.add_argument("--least", type=float, default=90, help="percent of the bound that gemm has to reach")
    options = parser.parse_args()
    for program in ["llvm-mca", "llvm-objdump"]:
        if not newest(program):
            raise SystemExit(f"{program} is not there: cmake/setup.sh --mca installs it")
    neon = folder(options.build, "neon")
    loops = {name: hottest_loop(os.path.join(neon, f"{name}_neon.c.o"), KEYS_16 if "softmax" in name else math.inf)
             for name in GEMM + PAIRS + REST}
    cores = [core for core in CORES if known(core)]
    rates = {core: rate(core) for core in cores}

    print(f"{os.path.basename(newest('llvm-mca'))}: cycles of one pass of the inner loop, modelled, not measured\n")
    print(f"{'kernel':<22} {'core':<12} {'fma':>4} {'cycles':>7} {'bound':>7} {'of bound':>8}  limit")
    short = []
    for name, loop in loops.items():
        for core in cores:
            cycles, busiest, share = model(assembly(loop), core)
            bound = multiply_adds(loop) / rates[core]
            print(f"{name + '_neon':<22} {core:<12} {multiply_adds(loop):>4} {cycles:>7.1f} {bound:>7.1f} "
                  f"{100 * bound / cycles:>7.1f}%  {busiest} {100 * share:.0f}%")
            if name in GEMM and core in HELD and 100 * bound / cycles < options.least:
                short.append(f"{name}_neon reaches {100 * bound / cycles:.1f}% on {core}")

    for core in CORES:
        if core not in cores:
            print(f"SKIPPED: {os.path.basename(newest('llvm-mca'))} does not know {core}")

    if options.x86:
        print("\nInstructions executed by a whole gemm call (qemu): for 100 flops, and for each vector's multiply-add")
        plugin = build_plugin(options.build)
        rows = [(f"{name}_neon", options.build, "aarch64", 4) for name in GEMM]
        rows += [(f"{name}_avx2", options.x86, "x86_64", 8) for name in AVX2]
        each = {}
        for name, build, machine, lanes in rows:
            flop = instructions_per_flop(plugin, build, machine, name)
            each[name] = flop * 2 * lanes
            print(f"{name:<22} {100 * flop:>6.1f}   {each[name]:.2f}")
        best = min(value for name, value in each.items() if name.endswith("avx2"))
        short += [f"{name} executes {value:.2f} instructions for a multiply-add, AVX2's best {best:.2f}"
                  for name, value in each.items() if name.endswith("neon") and value > best]
    for line in short:
        print(f"falls short: {line}", file=sys.stderr)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
