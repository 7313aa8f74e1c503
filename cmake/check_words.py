#!/usr/bin/env python3
"""Fails where a line is too long, or a comment or page has words that readers stumble over (CONTRIBUTING.md, "Words").

    check_words.py [--all]        --all: also lists what UNCLEAN still allows

Lines: 120 columns in C and assembly, 140 in anything else; tables, links, data and code of pages are exempt. Comments: none begins
with "Of" or "What"; comments and pages have none of WORDS."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
C = (".c", ".h", ".inc", ".S", ".cc")
SCRIPTS = (".py", ".pyi", ".sh", ".cmake", ".txt", ".yml", ".toml")
WORDS = {r"\bso many\b": "as many, that many, or the number", r"\bbeside\b(?!=)": "next to, compared with, or overlapped",
         r"\bgemm\b": "product, or the kernel's name", r"\bforetold\b": "predicted"}
# Recorded data and what programs made: not for readers.
DATA = ("tests/data/", "docs/peers/", "docs/pictures/", "CHANGELOG.md", "tools/embed/alice.txt",
        "tools/generate/tiny/", "tools/generate/reference.txt", "tools/models/tokenizers/reference.txt")
# Folders, or files, that still break a rule. Take out what is clean. Any change of venv.sh makes the environment anew, which takes
# minutes and the network: its lines are to be cut when its packages change.
UNCLEAN = {
    "columns": ("python/tools/venv.sh",),
    "words": ("python/tools/venv.sh",),
}


def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode or not listed.stdout:
        print("SKIPPED: this is no checkout of git")
        sys.exit(77)
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if name.endswith((*C, *SCRIPTS, ".md")) and not name.startswith(DATA) and path.is_file():
            yield name, path.read_text(errors="replace")


def columns(name, text):
    """Lines that are too long: (number, message)."""
    most, code = 120 if name.endswith(C) else 140, False
    for number, line in enumerate(text.splitlines(), 1):
        exempt = "://" in line
        if name.endswith(".md"):
            code ^= line.lstrip().startswith("```")
            exempt |= code or line.lstrip().startswith("|") or "](" in line
        if len(line) > most and not exempt:
            yield number, f"{len(line)} columns, {most} allowed"


def comments(name, text):
    """(number of the first line, text) of comments and docstrings."""
    if name.endswith(C):
        for found in re.finditer(r'"(?:\\.|[^"\\\n])*"|/\*(.*?)\*/', text, re.S):
            if found[1] is not None:
                yield text.count("\n", 0, found.start()) + 1, re.sub(r"\s*\n\s*\*? ?", " ", found[1]).strip(" *\n-")
        return
    lines, block, begin = [*text.splitlines(), ""], [], 0
    for number, line in enumerate(lines, 1):
        whole = re.match(r"\s*#(?!!) ?(.*)", line)
        if block and not whole:
            yield begin, " ".join(block)
            block = []
        if whole:
            begin = begin if block else number
            block.append(whole[1])
        elif behind := re.search(r"""^[^"'#]*\s# ([^"']*)$""", line):
            yield number, behind[1]
    if name.endswith((".py", ".pyi")):
        for found in re.finditer(r'"""(.*?)"""', text, re.S):
            yield text.count("\n", 0, found.start()) + 1, " ".join(found[1].split())


def paragraphs(text):
    """(number, line) of a page, code left out."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.lstrip().startswith("```")
        if not code:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def words(name, text):
    page = name.endswith(".md")
    for number, said in paragraphs(text) if page else comments(name, text):
        first = re.match(r"(?:Of|What) ", said)
        if first and not page:
            yield number, f'a comment that begins with "{first[0].strip()}": {said[:60]}'
        for word, better in WORDS.items():
            if found := re.search(word, said, re.I):
                yield number, f'"{found[0]}": say {better}'


def main():
    broken, left = [], {(rule, entry): 0 for rule, entries in UNCLEAN.items() for entry in entries}
    me = pathlib.Path(__file__).name
    for name, text in files():
        for rule, find in (("columns", columns), ("words", words)):
            if rule == "words" and (name.endswith(me) or not name.endswith((*C, ".py", ".pyi", ".sh", ".cmake", "CMakeLists.txt", ".md"))):
                continue
            entry = next((entry for entry in UNCLEAN[rule] if name.startswith(entry)), None)
            for number, message in find(name, text):
                if entry:
                    left[rule, entry] += 1
                if not entry or "--all" in sys.argv[1:]:
                    broken.append(f"{name}:{number}: {message}")
    for (rule, entry), count in left.items():
        if not count:
            print(f"{entry} is clean: take it out of UNCLEAN[{rule!r}]")
    print("\n".join(broken) or f"no long line, no word to replace; {sum(left.values())} in folders that UNCLEAN allows")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
