#!/usr/bin/env python3
"""Draws the pictures of the pages beside it: segments.svg, page.svg, masks.svg, crossed.svg. Self-contained SVG,
light or dark as the reader's system.

    draw.py [--check]        --check: ends with 1 if a picture is not what this draws
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
STYLE = """
  text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; } .bold { font-weight: 600; } .small { font-size: 10px; } .soft { fill: #57606a; }
  .card { fill: #ffffff; stroke: #d0d7de; } .line { stroke: #57606a; fill: none; } .edge { stroke: #8c959f; }
  .a { fill: #9cc3ea; } .b { fill: #f2c69b; } .c { fill: #b4d6a4; } .d { fill: #d3c1ec; } .none { fill: #eceff2; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .soft { fill: #9198a1; }
    .card { fill: #0d1117; stroke: #3d444d; } .line { stroke: #9198a1; } .edge { stroke: #57606a; }
    .a { fill: #27517d; } .b { fill: #7d5227; } .c { fill: #3a6329; } .d { fill: #54407a; } .none { fill: #1c222a; }
  }
"""


class Picture:
    def __init__(self, width, height, label):
        self.out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
            f'aria-label="{label}">\n<style>{STYLE}</style>\n'
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8" class="line"/></marker></defs>',
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" class="card"/>',
        ]

    def text(self, x, y, words, kind="", anchor="start"):
        words = words.replace("&", "&amp;").replace("<", "&lt;")
        self.out.append(f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{words}</text>')

    def box(self, x, y, width, height, kind, words="", small=True):
        self.out.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" class="{kind} edge"/>')
        if words:
            self.text(x + width / 2, y + height / 2 + 4, words, "small" if small else "", "middle")

    def line(self, x1, y1, x2, y2, arrow=False):
        end = ' marker-end="url(#arrow)"' if arrow else ""
        self.out.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="line"{end}/>')

    def whole(self):
        return "\n".join([*self.out, "</svg>"]) + "\n"


def segments():
    """How the keys of a row are split, and how a segment's weights are summed."""
    p = Picture(860, 420, "Keys are split into segments of 256; 16 partial sums in each; segments are merged in order")
    p.text(16, 26, "One row (a query of a head) over 900 keys: the order of its sums", "title")
    left, scale, before = 16, 0.92, 0
    for i, (begin, end) in enumerate(((0, 256), (256, 512), (512, 768), (768, 900))):
        x, width = left + begin * scale, (end - begin) * scale
        center = x + width / 2
        p.box(x, 44, width, 26, "abcd"[i], f"keys {begin} to {end - 1}")
        p.line(center, 70, center, 84, True)
        p.box(center - 40, 86, 80, 22, "abcd"[i], "m, l, o")
        if i == 0:
            p.line(center, 108, center, 141)
        else:
            p.line(center, 108, center, 128, True)
            p.box(center - 40, 130, 80, 22, "none", "merge")
            p.line(before + (0 if i == 1 else 40), 141, center - 40, 141, True)
        before = center
    p.text(left, 176, "m: maximum of the scores; l: sum of the weights p = exp(s - m); o: sum of p times the values. Segments are merged in", "soft")
    p.text(left, 192, "ascending order, whichever threads computed them.", "soft")
    p.text(left, 222, "l of a segment: 16 partial sums, then one fixed tree", "bold")
    for j in range(16):
        x = left + j * 37
        for step in range(3):
            p.box(x, 232 + step * 20, 34, 18, "a", f"p{j + 16 * step}")
        p.text(x + 17, 302, "\u22ee", "soft", "middle")
        p.box(x, 308, 34, 18, "none", f"s{j}")
    for level, count in enumerate((8, 4, 2, 1)):
        for j in range(count):
            p.box(left + j * 37, 330 + level * 20, 34, 18, "none", "l" if count == 1 else "")
        p.text(left + count * 37 + 6, 343 + level * 20, f"s_j + s_(j + {count})", "small soft")
    for row, words in enumerate(("Partial sum j takes keys", "j, j + 16, j + 32 ...", "", "AVX-512: one vector", "AVX2: two", "NEON: four", "C: an array")):
        p.text(630, 244 + row * 18, words, "soft" if row > 2 else "")
    return p.whole()


def page():
    """What a page of the cache holds."""
    p = Picture(860, 318, "A page of the cache: keys of a head in groups of 32, values row by row")
    p.text(16, 26, "A page: 256 positions of one layer, keys and values of all its heads", "title")
    for i, words in enumerate(("head 0: keys", "values", "head 1: keys", "values", "...")):
        p.box(16 + i * 130, 42, 130, 26, "abab"[i] if i < 4 else "none", words)
    p.line(16, 68, 16, 92), p.line(146, 68, 430, 92)
    p.text(16, 110, "Keys: eight groups of 32, each channel by channel", "bold")
    for g in range(8):
        p.box(16 + g * 52, 118, 52, 20, "a" if g == 0 else "none", f"{32 * g} ...")
    p.line(16, 138, 16, 158), p.line(68, 138, 430, 158)
    for row, channel in enumerate(("channel 0", "channel 1", "channel 2", "...")):
        y = 160 + row * 24
        p.text(96, y + 15, channel, "soft", "end")
        for k, words in enumerate(("key 0", "key 1", "key 2", "...", "key 31")):
            p.box(104 + k * 65, y, 65, 22, "a", words)
    p.text(16, 276, "A vector holds one channel of many keys, so a score is", "soft")
    p.text(16, 292, "a chain along the channels, and nothing is transposed.", "soft")
    p.text(480, 110, "Values: a row for each key", "bold")
    for row, key in enumerate(("key 0", "key 1", "key 2", "...", "key 255")):
        y = 118 + row * 24
        p.text(526, y + 15, key, "soft", "end")
        for k, words in enumerate(("channel 0", "channel 1", "channel 2", "...")):
            p.box(534 + k * 76, y, 76, 22, "b", words)
    p.text(480, 260, "int8 keys and values also have a scale for each key and head.", "soft")
    p.text(480, 276, "16-bit cells hold two channels, int8 cells four.", "soft")
    p.text(480, 292, "Other layouts: cache.h.", "soft")
    return p.whole()


def masks():
    """Masks as tiles."""
    p = Picture(860, 320, "Masks as tiles: skipped, whole, or by bits")
    p.text(16, 26, "A mask is looked at in tiles: some rows (queries) by a segment of 256 keys", "title")
    size, count, rows = 14, 16, 16

    def panel(x, name, visible):
        p.text(x, 56, name, "bold")
        for tile_row in range(4):
            for tile_column in range(4):
                seen = [visible(i, j) for i in range(tile_row * 4, tile_row * 4 + 4) for j in range(tile_column * 4, tile_column * 4 + 4)]
                kind = "c" if all(seen) else "b" if any(seen) else "none"
                p.box(x + tile_column * 4 * size, 66 + tile_row * 4 * size, 4 * size, 4 * size, kind)
        for i in range(rows):
            for j in range(count):
                if visible(i, j):
                    p.out.append(f'<circle cx="{x + j * size + size / 2:g}" cy="{66 + i * size + size / 2:g}" r="1.6" class="dot"/>')

    p.out[0] = p.out[0].replace("</style>", "  .dot { fill: #1f2328; }\n  @media (prefers-color-scheme: dark) { .dot { fill: #e6edf3; } }\n</style>")
    document = lambda i: 0 if i < 6 else 1 if i < 9 else 2
    panel(16, "causal", lambda i, j: j <= i)
    panel(306, "causal, window of 5 keys", lambda i, j: i - 4 <= j <= i)
    panel(596, "documents, causal", lambda i, j: j <= i and document(i) == document(j))
    for x, kind, words in ((16, "none", "skipped: neither keys nor values are read"), (306, "c", "whole: no mask is needed"), (596, "b", "mixed: scores are masked by bits")):
        p.box(x, 300, 12, 12, kind)
        p.text(x + 18, 310, words, "small")
    return p.whole()


def crossed():
    """The sizes of Q, K and V in cross-attention."""
    p = Picture(860, 262, "Sizes in cross-attention: Q is T_q by d_k, K is T_k by d_k, V is T_k by d_v")
    p.text(16, 26, "One head of cross-attention: 3 queries (T_q), 5 keys and values (T_k = T_v)", "title")
    unit = 22

    def matrix(x, y, rows, columns, kind, name, row_words, column_words):
        for i in range(rows):
            for j in range(columns):
                p.box(x + j * unit, y + i * unit, unit, unit, kind)
        p.text(x + columns * unit / 2, y - 22, name, "bold", "middle")
        p.text(x + columns * unit / 2, y - 6, column_words, "small soft", "middle")
        p.text(x - 6, y + rows * unit / 2 + 4, row_words, "small soft", "end")

    y = 90
    matrix(48, y, 3, 4, "a", "Q", "T_q", "d_k")
    p.text(148, y + 38, "\u00d7", "bold")
    matrix(192, y, 4, 5, "b", "K\u1d40", "d_k", "T_k")
    p.text(316, y + 38, "\u2192 softmax \u2192", "bold")
    matrix(436, y, 3, 5, "d", "weights", "T_q", "T_k")
    p.text(558, y + 38, "\u00d7", "bold")
    matrix(600, y, 5, 3, "b", "V", "T_v", "d_v")
    p.text(678, y + 38, "=", "bold")
    matrix(730, y, 3, 3, "c", "result", "T_q", "d_v")
    p.text(16, 224, "d_k of Q and K must agree: a score is the inner product of the two. T_k and T_v must agree: each key has one value.", "soft")
    p.text(16, 244, "T_q and d_v are free: the result has a row for each query and the width of the values.", "soft")
    return p.whole()


if __name__ == "__main__":
    for draw in (segments, page, masks, crossed):
        picture, file = draw(), HERE / f"{draw.__name__}.svg"
        if "--check" not in sys.argv[1:]:
            file.write_text(picture)
        elif file.read_text() != picture:
            raise SystemExit(f"{file} is not what {__file__} draws")
