#!/usr/bin/env python3
"""Writes characters_newer.inc: characters that PyPI's tokenizers takes for letters, as its tables are older than utf8proc's.

    python3 make_characters_newer.py TEST-TOKENIZERS-IDS FOLDER      FOLDER/uncased is what test_trained.py made

Each character is tokenized between letters, by both; with an empty characters_newer.inc these are the ones that differ."""

import json
import pathlib
import subprocess
import sys

from tokenizers import Tokenizer

program, place = sys.argv[1], pathlib.Path(sys.argv[2]) / "uncased"
t = Tokenizer.from_file(str(place / "tokenizer.json"))
codes = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
texts = [f"the{chr(c)}and" for c in codes]
run = subprocess.run([program, place, "0"], input="".join(json.dumps(x) + "\n" for x in texts), capture_output=True, text=True)
runs = []
for code, text, line in zip(codes, texts, run.stdout.split("\n")):
    if t.encode(text).ids != [int(i) for i in line.split()]:
        if runs and code == runs[-1][1] + 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
print(sum(b - a + 1 for a, b in runs), "characters differ")
lines, line = [], ""
for a, b in runs:
    item = f"{{{a:#x}, {b:#x}}}, "
    if len(line) + len(item) > 118:
        lines.append(line.rstrip())
        line = ""
    line += item
head = "/* Made by make_characters_newer.py: first and last of each run. */\n"
(pathlib.Path(__file__).parent / "characters_newer.inc").write_text(head + "\n".join([*lines, line.rstrip()]) + "\n")
