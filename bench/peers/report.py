"""The tables of docs/peers/, from what the workers measured: a page for each CPU, and their ratios side by side."""

TITLES = {"fovea": "Fovea", "torch": "PyTorch", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "sleef": "SLEEF"}
PEERS = ("torch", "onnxruntime", "openvino")


def summary_of(case, run):
    return run["tiers"].get(case.tier, {})


def rate(case, seconds):
    """What a case is measured in, as (value, unit)."""
    if case.kind == "exp":
        return case.work / seconds / 1e9, "G/s"
    if case.bytes:
        return case.bytes / seconds / 1e9, "GB/s"
    return case.work / seconds / 1e9, "GF/s"


def rivals(case, record):
    """The names of those the target is about that were measured, the fastest first."""
    names = [name for name in case.against if name in record["results"]]
    return sorted(names, key=lambda name: record["results"][name]["seconds"])


def ratio(case, record):
    """How many times as fast as the better rival; None if there is none."""
    names = rivals(case, record)
    return record["results"][names[0]]["ratio"] if names else None


def ratio_text(case, measured):
    """With as many digits as tell it from a target that it misses."""
    digits = 2
    while measured < case.target <= round(measured, digits) and digits < 5:
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
    return f"{value:.3g} {unit}, {milliseconds(result['seconds'])}"


def share(case, record, name):
    """An engine's share of the FMA peak or, where memory bounds a case, of the speed of reading; None for an exp."""
    if case.kind == "exp" or name not in PEERS + ("fovea",):
        return None
    result = record["results"].get(name, {})
    bound = result.get("bound", "FMA peak")  # figures of before reading was measured have none
    return result.get("share") if bound == ("reading" if case.bytes else "FMA peak") else None


def shares(case, record):
    """Of Fovea and the better rival."""
    known = [share(case, record, name) for name in ["fovea", *rivals(case, record)[:1]]]
    text = ", ".join(f"{100 * one:.0f}%" for one in known if one)
    return text + (" of reading" if text and case.bytes else "")


def verdict(case, record):
    measured = ratio(case, record)
    if measured is None:
        return "-", f"{case.target:g}x" if case.target else ""
    rival = rivals(case, record)[0]
    low, high = record["results"][rival]["ratio_quartiles"]
    text = f"**{ratio_text(case, measured)}** {TITLES.get(rival, rival)} ({low:.2f}-{high:.2f})"
    if not case.target:
        return text, ""
    if measured >= case.target:
        return text, f"{case.target:g}x reached"
    wanted = case.target * (share(case, record, rival) or 0)
    bound = "reading" if case.bytes else "the peak"
    return text, f"{case.target:g}x not reached" + (f": {100 * wanted:.0f}% of {bound}" if wanted else "")


def peer_cells(case, record, run):
    """The columns of the peers; cases with rivals of another kind name them in the first."""
    others = [name for name in case.against if name not in PEERS]
    if not others:
        return [cell(case, record, name, run) for name in PEERS]
    name = others[0]
    return [f"{TITLES.get(name, name)}: {cell(case, record, name, run)}", "", ""]


def table(chosen, run):
    lines = [
        "| case | Fovea | of peak, rival | PyTorch | ONNX Runtime | OpenVINO | ratio (quartiles) | target |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in chosen:
        record = run["cases"].get(case.title)
        if record is None:
            continue
        columns = [case.title, cell(case, record, "fovea", run), shares(case, record)]
        lines.append("| " + " | ".join([*columns, *peer_cells(case, record, run), *verdict(case, record)]) + " |")
    return "\n".join(lines)


def forms(chosen, run):
    """Which form each peer was fastest in, where there was a choice."""
    used = {}
    for case in chosen:
        for name, result in run["cases"].get(case.title, {"results": {}})["results"].items():
            if name in PEERS and case.kind in ("attention", "linear", "mha", "encoder"):
                used.setdefault(name, {}).setdefault(result["form"], []).append(case.title)
    lines = []
    for name, by_form in used.items():
        for form, titles in by_form.items():
            lines.append(f"- {TITLES[name]} {form}: {'; '.join(titles)}")
    return "\n".join(lines)


def notes(chosen, run):
    lines = []
    for case in chosen:
        for note in run["cases"].get(case.title, {"notes": []})["notes"]:
            lines.append(f"- {case.title}: {note}")
    for summary in run["tiers"].values():
        lines += [f"- {note}" for note in summary["notes"]]
    best = run["tiers"].get("best", {})
    product, peak = best.get("torch_mm"), best.get("peak", 0) / 1e9
    if product and product < 0.6 * peak:
        lines.append(
            f"- PyTorch's own matrix product (torch.mm 512x768x768) reaches {product:.0f} GF/s here, "
            f"{100 * product / peak:.0f}% of the FMA peak: the library of matrix products in its package does "
            "not use all that this CPU has. On CPUs where it does, PyTorch is faster than here."
        )
    return "\n".join(lines)


def machine(run):
    lines = [f"- {run['date']}, {run['cpu']}"]
    for tier, summary in run["tiers"].items():
        if tier in ("alone", "pair"):  # as "best"
            continue
        versions = ", ".join(f"{TITLES[n]} {v or 'not installed'}" for n, v in summary["versions"].items())
        lines.append(f"- {summary['tier']}: FMA peak of one core {summary['peak'] / 1e9:.0f} GF/s; {versions}")
    return "\n".join(lines)


def markdown(chosen, run):
    parts = [
        "# Fovea beside its peers",
        f"Made by `{run['command']}`; not edited by hand.",
        "![The figures of the table as bars](peers.svg)",
        machine(run),
        table(chosen, run),
        "One thread unless a case says two, float32. GF/s count what is attended to: 4 * D flops for each pair of a row and a key it sees, so "
        "a causal case has about half the work and a window less. The ratio is that to the better of PyTorch and ONNX "
        "Runtime (the named one), to PyTorch alone where the target is about it (linear maps, layers, AVX2, exp), the median over interleaved rounds of time by time, with its quartiles. T: queries "
        "and keys; window 256: each query sees itself and the 255 keys before it; decode: one query on 32 heads, 8 key "
        "heads, 4096 keys, its GB/s those of keys and values; exp: less what a call takes on one element; MiniLM: the "
        "sentence encoder all-MiniLM-L6-v2 from token ids to vectors, two threads, wall clock, flops without padding. All "
        "results were compared with float64 and with each other before they were timed. Of peak: the shares of the FMA peak of "
        "Fovea and of that rival, medians over the rounds, in each of which the peak is measured, too; where memory is the bound, "
        "of the speed at which as many bytes are only read. A target not reached says which share it asks for.",
        "## Forms",
        "Each library was tried in the forms below and others it has for the case, and measured in its fastest:",
        forms(chosen, run),
    ]
    extra = notes(chosen, run)
    if extra:
        parts += ["## Notes", extra]
    return "\n\n".join(parts) + "\n"


def index(chosen, runs):
    """The ratios of all CPUs that were measured: runs by the name of their folder."""
    lines = [
        "# Fovea beside its peers",
        "How many times as fast Fovea is as the better of PyTorch and ONNX Runtime in one case (as PyTorch alone in linear maps, layers, AVX2 and exp), and its share of the FMA "
        "peak (or, where memory is the bound, of the speed of reading) of the same second; a ratio in bold reaches its "
        "target. Made by `make bench-peers`, which measures the CPU it runs on and writes its page; not edited by hand.",
    ]
    lines.append("\n".join(f"- [{run['cpu']}]({name}/peers.md), {run['date']}" for name, run in runs.items()))
    rows = [
        "| case | target | " + " | ".join(run["cpu"] for run in runs.values()) + " |",
        "|---|---|" + "---|" * len(runs),
    ]
    for case in chosen:
        cells = []
        for run in runs.values():
            record = run["cases"].get(case.title)
            measured = ratio(case, record) if record else None
            if measured is None:
                cells.append("-")
                continue
            text = ratio_text(case, measured)
            if case.target and measured >= case.target:
                text = f"**{text}**"
            own = share(case, record, "fovea")
            cells.append(text + (f", {100 * own:.0f}%" if own else ""))
        rows.append(f"| {case.title} | {f'{case.target:g}x' if case.target else ''} | " + " | ".join(cells) + " |")
    return "\n\n".join([*lines, "\n".join(rows)]) + "\n"
