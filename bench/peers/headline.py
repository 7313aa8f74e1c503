"""The picture of the README, docs/pictures/speed.svg: how many times as fast as the fastest other library Fovea is, in the cases below,
by the newest page of docs/peers. pages.py draws it."""

import report

CASES = {
    "B1 H16 T2048 D64": "attention, 16 heads of 64, 2048 tokens",
    "B1 H16 T2048 D64 causal": "the same, causal",
    "B1 H12 T512 D64": "attention, 12 heads of 64, 512 tokens",
    "B1 H12 T512 D64 causal": "the same, causal",
    "decode H32/8 1x4096 D128": "decoding, 32/8 heads of 128, 4096 keys",
    "layer B1 T512 d768 h12": "attention layer, 512 tokens, 768 wide",
    "linear 512x768x768": "linear map, 512 x 768 x 768",
    "linear 32x768x768": "linear map, 32 x 768 x 768",
    "linear 1x4096x4096": "linear map, 1 x 4096 x 4096",
}
WIDTH, LEFT, RIGHT, TOP, ROW = 860, 270, 270, 58, 24

STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .title { font-size: 16px; font-weight: 600; } .panel { font-weight: 600; } .small { font-size: 10px; }
  .soft { fill: #57606a; } .card { fill: #ffffff; stroke: #d0d7de; } .grid { stroke: #d8dee4; }
  .peak { stroke: #cf222e; stroke-dasharray: 4 3; } .fovea { fill: #0a6cd6; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .soft { fill: #9198a1; } .card { fill: #0d1117; stroke: #3d444d; } .grid { stroke: #2a313c; }
    .peak { stroke: #ff7b72; } .fovea { fill: #4493f8; }
  }
"""


def svg(run):
    out = []

    def text(x, y, words, kind="", anchor="start"):
        out.append(f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}" text-anchor="{anchor}">{words}</text>')

    scale = (WIDTH - LEFT - RIGHT) / 2.4
    height = TOP + ROW * len(CASES) + 34
    text(16, 28, "Times as fast as the fastest other library, one thread, float32", "title")
    for k in (0, 1, 2):
        x = LEFT + k * scale
        kind = "peak" if k == 1 else "grid"
        out.append(f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{TOP - 8}" y2="{height - 30}" class="{kind}"/>')
        text(x, TOP - 12, f"{k}\u00d7", "small soft", "middle")
    for row, (case, words) in enumerate(CASES.items()):
        record = run["cases"][case]
        y, ratio, rival = TOP + row * ROW, report.ratio(record), report.rivals(record)[0]
        times = [report.milliseconds(record["results"][name]["seconds"]) for name in ("fovea", rival)]
        text(LEFT - 10, y + 14, words, anchor="end")
        out.append(f'<rect x="{LEFT}" y="{y + 3}" width="{ratio * scale:.0f}" height="14" rx="1.5" class="fovea"/>')
        text(LEFT + ratio * scale + 6, y + 14, report.ratio_text(1, ratio).replace("x", "\u00d7"), "panel")
        text(WIDTH - 16, y + 14, f"{times[0]}; {report.TITLES[rival]} {times[1]}", "small soft", "end")
    versions = run["tiers"]["best"]["versions"]
    others = ", ".join(f"{report.TITLES[name]} {versions[name].split(' ')[0]}" for name in report.PEERS if versions.get(name))
    own = f"Fovea {versions['fovea'].split(' ')[0]} on {run['cpu']}, {run['date']}"
    text(16, height - 12, f"{own}; {others}", "small soft")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Bar chart: how many times as fast as the fastest other library Fovea is">\n<style>{STYLE}</style>\n'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="card"/>'
    )
    return "\n".join([head, *out, "</svg>"]) + "\n"
