"""The picture peers.svg: for each case one bar per library, in panels of one unit each. Self-contained; it brings
its own background, light or dark as the reader's system, so that it is readable on any page."""

from html import escape

import report

WIDTH, LEFT, RIGHT = 860, 236, 150  # of the picture, of the titles, of the figures beside the longest bar
BAR, GAP, CASE_GAP, PANEL_GAP = 11, 2, 9, 30
SERIES = ("fovea", *report.PEERS, "sleef")

STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; } .panel { font-weight: 600; } .small { font-size: 10px; }
  .soft { fill: #57606a; } .card { fill: #ffffff; stroke: #d0d7de; } .grid { stroke: #d8dee4; }
  .peak { stroke: #cf222e; stroke-dasharray: 4 3; } .peaktext { fill: #cf222e; }
  .fovea { fill: #0a6cd6; } .torch { fill: #e39a7b; } .onnxruntime { fill: #9bb58f; } .openvino { fill: #b3a5d1; }
  .zentorch { fill: #8ab6c4; } .openblas { fill: #d6a5b8; } .sleef { fill: #c9b458; } .float32 { fill: #9cc3ea; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .soft { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; } .grid { stroke: #2a313c; }
    .peak { stroke: #ff7b72; } .peaktext { fill: #ff7b72; }
    .fovea { fill: #4493f8; } .torch { fill: #b9694a; } .onnxruntime { fill: #66855a; } .openvino { fill: #8371ad; }
    .zentorch { fill: #4d7f8e; } .openblas { fill: #9a5f76; } .sleef { fill: #94832f; } .float32 { fill: #7aa7d9; }
  }
"""


def panels(chosen, run):
    """[(heading, peak or None, [(case, record)])], cases of one tier and one unit together."""
    groups = {}
    for case in chosen:
        record = run["cases"].get(case.title)
        if record and "fovea" in record["results"] and case.kind != "threads":
            unit = report.rate(case, 1.0)[1]
            groups.setdefault((case.tier, unit, case.dtype != "f32"), []).append((case, record))
    made = []
    for (tier, unit, halves), rows in groups.items():
        summary = run["tiers"][tier]
        words = {"GF/s": "attention and layers, GFLOP/s" + (", two threads" if tier == "pair" else ""), "GB/s": "decode, GB/s", "G/s": "exp, 10\u2079 elements/s"}[unit]
        made.append((f"{summary['tier']}: {words}" + (", 16 bits" if halves else ""), summary["peak"] * rows[0][0].threads / 1e9 if unit == "GF/s" else None, rows))
    return made


def step(largest):
    """A round distance of grid lines, four to eight of them."""
    size = 10.0 ** len(str(int(largest))) / 100
    return next(size * k for k in (1, 2, 5, 10, 20, 50) if largest / (size * k) <= 8)


def svg(chosen, run):
    out, y = [], 74

    def text(x, y, words, kind="", anchor="start"):
        out.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>')

    def line(x, top, bottom, kind):
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}" class="{kind}"/>')

    shown = set()
    for heading, peak, rows in panels(chosen, run):
        rates = [report.rate(case, r["seconds"])[0] for case, record in rows for r in record["results"].values()]
        largest = max([*rates, peak or 0]) * 1.02
        scale = (WIDTH - LEFT - RIGHT) / largest
        text(16, y, heading, "panel")
        y += 10
        top, bars = y, []
        for case, record in rows:
            y += CASE_GAP
            series = [name for name in SERIES if name in record["results"]]
            shown.update(series)
            middle = y + len(series) * (BAR + GAP) / 2
            text(LEFT - 10, middle + 4, case.title, anchor="end")
            ratio = report.ratio(record)
            if ratio is not None:
                rival = report.TITLES[report.rivals(record)[0]]
                text(WIDTH - 16, middle, f"{ratio:.2f}\u00d7", "panel", "end")
                text(WIDTH - 16, middle + 12, f"as fast as {rival}", "small soft", "end")
            for name in series:
                value = report.rate(case, record["results"][name]["seconds"])[0]
                bars.append((name, y, value))
                y += BAR + GAP
        y += CASE_GAP
        distance = step(largest)
        for k in range(int(largest / distance) + 1):
            line(LEFT + k * distance * scale, top, y, "grid")
            text(LEFT + k * distance * scale, y + 11, f"{k * distance:g}", "small soft", "middle")
        if peak:
            line(LEFT + peak * scale, top, y, "peak")
            text(LEFT + peak * scale, top - 3, f"FMA peak {peak:.0f}", "small peaktext", "middle")
        for name, at, value in bars:
            width = max(value * scale, 1)
            out.append(f'<rect x="{LEFT}" y="{at:.1f}" width="{width:.1f}" height="{BAR}" rx="1.5" class="{name}"/>')
            text(LEFT + value * scale + 4, at + BAR - 2, f"{value:.3g}", "small" if name == "fovea" else "small soft")
        y += 11 + PANEL_GAP
    height = y + 10

    legend, x = [], 16
    body, out = out, legend
    text(16, 28, "Fovea beside its peers, one thread, float32", "title")
    for name in (s for s in SERIES if s in shown):
        version = next((t["versions"].get(name) for t in run["tiers"].values() if t["versions"].get(name)), "")
        label = f"{report.TITLES[name]} {version.split(' ')[0]}"
        out.append(f'<rect x="{x}" y="41" width="11" height="11" rx="1.5" class="{name}"/>')
        text(x + 16, 51, label, "small")
        x += 34 + 6.2 * len(label)
    text(WIDTH - 16, 28, "\u00d7: against the fastest other library of the case", "small soft", "end")
    text(16, height - 10, f"{run['cpu']}, {run['date']}; longer is faster; only attended keys count", "small soft")
    frame = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="8" class="card"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" '
        f'role="img" aria-label="Bar chart: speed of Fovea and its peers for each case">\n<style>{STYLE}</style>'
    )
    return "\n".join([head, frame, *legend, *body, "</svg>"]) + "\n"
