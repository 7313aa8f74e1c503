"""The tables of docs/peers/, from what was measured: a page for each CPU, and their ratios side by side."""

import textwrap

TITLES = {
    "fovea": "Fovea",
    "torch": "PyTorch",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "zentorch": "zentorch",
    "openblas": "OpenBLAS",
    "sleef": "SLEEF",
    "float32": "Fovea in float32",
}
PEERS = ("torch", "onnxruntime", "openvino", "zentorch", "openblas")


def paragraph(text, indent=""):
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def not_current(run, current):
    """The note of a page that was measured with another version than this tree's."""
    version = next(iter(run["tiers"].values()))["versions"]["fovea"].split(" ")[0]
    if not current or version.startswith(f"{current}."):
        return ""
    return f"**Not current:** measured with Fovea {version}; this is {current}. `make bench-peers` on such a CPU measures it anew."


def summary_of(case, run):
    return run["tiers"].get(case.tier, {})


def rate(case, seconds):
    """The speed of a case, as (value, unit)."""
    if case.kind == "exp":
        return case.work / seconds / 1e9, "G/s"
    if case.bytes:
        return case.bytes / seconds / 1e9, "GB/s"
    return case.work / seconds / 1e9, "GF/s"


def rivals(record, names=None):
    """The names of the other libraries that were measured, or those among `names`, the fastest first."""
    found = [name for name in record["results"] if name not in ("fovea", "float32") and (names is None or name in names)]
    return sorted(found, key=lambda name: record["results"][name]["ratio"])


def ratio(record, names=None):
    """How many times as fast as the fastest rival; None if there is none."""
    found = rivals(record, names)
    return record["results"][found[0]]["ratio"] if found else None


def ratio_text(target, measured):
    """With as many digits as tell it from a target that it misses."""
    digits = 2
    while measured < target <= round(measured, digits) and digits < 5:
        digits += 1
    return f"{measured:.{digits}f}x"


def milliseconds(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.2f} s"


def cell(case, record, name, run):
    """The figure of an engine, or why there is none."""
    result = record["results"].get(name)
    if result is None:
        if record.get("failed") and name == "fovea":
            return "**WRONG**"
        versions = summary_of(case, run).get("versions", {})
        return "not installed" if name in versions and versions[name] is None else "-"
    value, unit = rate(case, result["seconds"])
    return f"{value:.3g} {unit}, {milliseconds(result['seconds'])}" if name == "fovea" else f"{value:.3g}"


def share(case, record, name):
    """An engine's share of the FMA peak or, where memory bounds a case, of the speed of reading; None for an exp."""
    if case.kind == "exp" or name not in PEERS + ("fovea",):
        return None
    result = record["results"].get(name, {})
    bound = result.get("bound", "FMA peak")  # figures of before reading was measured have none
    return result.get("share") if bound == ("reading" if case.bytes else "FMA peak") else None


def shares(case, record):
    """Shares of Fovea and the fastest rival."""
    known = [share(case, record, name) for name in ["fovea", *rivals(record)[:1]]]
    text = ", ".join(f"{100 * one:.0f}%" for one in known if one)
    return text + (" of reading" if text and case.bytes else "")


def best_text(record):
    """The ratio to the fastest rival, its name, and the quartiles."""
    found = rivals(record)
    if not found:
        return "-"
    low, high = record["results"][found[0]]["ratio_quartiles"]
    return f"**{ratio(record):.2f}x** {TITLES.get(found[0], found[0])} ({low:.2f}-{high:.2f})"


def target_text(case, record):
    """The target, whom it is about, and whether it is reached."""
    if not case.target:
        return ""
    wanted = f"{case.target:g}x {', '.join(TITLES.get(name, name) for name in case.against)}"
    measured = ratio(record, case.against)
    if measured is None:
        return wanted
    if measured >= case.target:
        return f"{wanted}: reached"
    there = case.target * (share(case, record, rivals(record, case.against)[0]) or 0)
    bound = "reading" if case.bytes else "the peak"
    return f"{wanted}: {ratio_text(case.target, measured)}" + (f" (needs {100 * there:.0f}% of {bound})" if there else "")


def peer_cells(case, record, run):
    """The columns of the peers; cases with rivals of another kind name them in the first."""
    others = [name for name in case.against if name not in PEERS]
    if not others:
        return [cell(case, record, name, run) for name in PEERS]
    name = others[0]
    return [f"{TITLES.get(name, name)}: {cell(case, record, name, run)}", *[""] * (len(PEERS) - 1)]


def own_text(case, record):
    """For 16 bits: how many times as fast as Fovea in float32, and whether that reaches its target."""
    result = record["results"].get("float32")
    if result is None:
        return "-"
    text = f"{ratio_text(case.own_target, result['ratio'])}"
    if not case.own_target:
        return text
    return text + f" ({case.own_target:g}x{': reached' if result['ratio'] >= case.own_target else ''})"


def table(chosen, run):
    """The cases of float32, and those of 16 bits."""
    floats, halves = ([c for c in chosen if (c.dtype == "f32") == kind] for kind in (True, False))
    return "\n\n".join(filter(None, (table_of(floats, run, False), table_of(halves, run, True))))


def table_of(chosen, run, halves):
    if not any(case.title in run["cases"] for case in chosen):
        return ""
    peers = " | ".join(TITLES[name] for name in PEERS)
    lines = [
        f"| case | Fovea | of peak: Fovea, best peer | {peers} | ratio to the best (quartiles) | target |"
        + (" to Fovea in float32 (target) |" if halves else ""),
        "|---|---|---|" + "---|" * len(PEERS) + "---|---|" + "---|" * halves,
    ]
    for case in chosen:
        record = run["cases"].get(case.title)
        if record is None:
            continue
        columns = [case.title, cell(case, record, "fovea", run), shares(case, record), *peer_cells(case, record, run)]
        columns += [best_text(record), target_text(case, record)] + ([own_text(case, record)] if halves else [])
        lines.append("| " + " | ".join(columns) + " |")
    return "\n".join(lines)


def forms(chosen, run):
    """Which form each peer was fastest in, where there was a choice."""
    used = {}
    for case in chosen:
        for name, result in run["cases"].get(case.title, {"results": {}})["results"].items():
            if name in PEERS and case.kind in ("attention", "decode", "linear", "mha"):
                used.setdefault((name, result["form"]), []).append(case.title)
    return "\n".join(paragraph(f"- {TITLES[name]} {form}: {'; '.join(titles)}", "  ") for (name, form), titles in sorted(
        used.items(), key=lambda item: PEERS.index(item[0][0])))


def notes(chosen, run):
    lines = [f"- {case.title}: {note}" for case in chosen for note in run["cases"].get(case.title, {"notes": []})["notes"]]
    lines += [f"- {note}" for summary in run["tiers"].values() for note in summary["notes"]]
    best = run["tiers"].get("best", {})
    product, peak = best.get("torch_mm"), best.get("peak", 0) / 1e9
    if product and product < 0.6 * peak:
        lines.append(
            f"- PyTorch's own matrix product (torch.mm 512x768x768) reaches {product:.0f} GF/s here, "
            f"{100 * product / peak:.0f}% of the FMA peak: the library of matrix products in its package does "
            "not use all that this CPU has. On CPUs where it does, PyTorch is faster than here."
        )
    return "\n".join(paragraph(line, "  ") for line in lines)


def versions(summary):
    return ", ".join(f"{TITLES[n]} {v or 'not installed'}" for n, v in summary["versions"].items())


def machine(run):
    lines = [f"- {run['date']}, {run['cpu']}"]
    for tier, summary in run["tiers"].items():
        if tier in ("alone", "pair"):  # as "best"
            continue
        lines.append(paragraph(f"- {summary['tier']}: FMA peak of one core {summary['peak'] / 1e9:.0f} GF/s; {versions(summary)}", "  "))
    return "\n".join(lines)


MEANING = """\
How to read the table:

- **Conditions.** float32, unless a case names a type: then operands, weights and results are of it. One thread unless a case says
  two. Before any was timed, all results were compared with float64 and with each other.
- **Ratio.** How many times as fast Fovea is as the fastest other library of that case: the median over interleaved rounds of the
  ratio of times, with its quartiles.
- **Target.** The ratio that was aimed at, and against which library.
- **GF/s.** 4 * D flops for each pair of a row and a key that it attends to. Columns of other libraries have the unit of Fovea's column.
- **Of peak.** The share of the core's FMA peak, which is measured in each round, too. Where memory is the limit: the share of the
  speed of reading as many bytes and nothing else.
- **Names.** B: batch; H: heads; T: queries and keys; D: channels of a head. Window 256: each query sees itself and the 255 keys before
  it. Decode: one query, 32 query heads, 8 key heads, 4096 keys; its GB/s count keys and values. Exp: without the cost of a call, which
  is measured on one element."""


def markdown(chosen, run, current=None):
    parts = [
        "# Fovea and its peers",
        f"Made by `{run['command']}`; do not edit it by hand.",
        *filter(None, [not_current(run, current)]),
        machine(run),
        table(chosen, run),
        MEANING,
        "## Forms",
        "Each library was tried in all the forms that it has for a case, and measured in the fastest, which is listed here:",
        forms(chosen, run),
    ]
    extra = notes(chosen, run)
    if extra:
        parts += ["## Notes", extra]
    return "\n\n".join(parts) + "\n"


def index(chosen, runs, current):
    """The ratios of all CPUs that were measured: runs by the name of their folder."""
    lines = [
        "# Fovea and its peers",
        paragraph("Each cell shows three things: how many times as fast Fovea is as the fastest other library, which library that is, and "
                  "Fovea's share of the FMA peak (or, where memory is the limit, of the speed of a plain reading loop, which Fovea can "
                  "exceed). Bold: the other library is faster. A dash: not measured. Cases are float32 unless they name a type, on one "
                  "thread unless one says two."),
        paragraph("The page of each CPU explains the names of the cases. Older pages compare with fewer libraries, so look at the names "
                  "before you compare ratios of different CPUs. `make bench-peers` measures your CPU, and writes its page and this one; do "
                  "not edit them by hand."),
    ]
    cpus = []
    for name, run in runs.items():
        absent = [TITLES[peer] for peer in PEERS if not run["tiers"]["best"]["versions"].get(peer)]
        cpus.append(paragraph(f"- [{run['cpu']}]({name}/peers.md), {run['date']}: {versions(run['tiers']['best'])}"
                              + (f"; not measured: {', '.join(absent)}" if absent else "")
                              + (". **Not current**" if not_current(run, current) else ""), "  "))
    lines.append("\n".join(cpus))
    rows = [
        "| case | " + " | ".join(run["cpu"] for run in runs.values()) + " |",
        "|---|" + "---|" * len(runs),
    ]
    for case in chosen:
        cells = []
        for run in runs.values():
            record = run["cases"].get(case.title)
            measured = ratio(record) if record else None
            if measured is None:
                cells.append("-")
                continue
            best = rivals(record)[0]
            text = f"{measured:.2f}x" if measured >= 1 else f"**{ratio_text(1.0, measured)}**"
            own = share(case, record, "fovea")
            cells.append(f"{text} {TITLES.get(best, best)}" + (f", {100 * own:.0f}%" if own else ""))
        if set(cells) != {"-"}:
            rows.append(f"| {case.title} | " + " | ".join(cells) + " |")
    return "\n\n".join([*lines, "\n".join(rows)]) + "\n"
