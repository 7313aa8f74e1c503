#!/usr/bin/env python3
"""The public headers for Doxygen and Sphinx.

    headers.py FILE           prints a header with its comments as Doxygen reads them: a comment above a declaration, or behind one
                              on its line, is about that declaration, and reStructuredText (prose.py)
    pages(headers, folder)    writes a page for each header: its declarations in their order, with the text between them"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import prose

COMMENT = re.compile(r"/\*.*?\*/", re.S)
INDEX = """# C, header by header

`#include <fovea/fovea.h>` includes all headers but those of MPI. Texts are the headers' own.

```{{toctree}}
:maxdepth: 2

{}
```
"""
DECLARED = (
    ("struct", r"typedef struct (\w+) \{"),
    ("enum", r"typedef enum (\w+) \{"),
    ("typedef", r"typedef struct \w+ (\w+);|typedef [^;{]*?\(\*(\w+)\)\(|typedef [^;{(]*?(\w+);"),
    ("define", r"#define (FOVEA_\w+)(?:\(| \S)"),
    ("function", r"(?:FOVEA_\w*API|static inline)\s[^;{=]*?\b(fovea_\w+)\("),
)


def said(comment):
    """The text of a comment, its stars taken out."""
    return re.sub(r"(?m)^\s*\* ?", "", comment[2:-2]).strip("\n -").lstrip()


def banner(comment):
    return comment.startswith("/* ---")


def above(text, found):
    """Is this comment of the declaration in the line behind it?"""
    after = text[found.end() :]
    return not after.startswith("\n\n") and re.match(r"\n\s*[\w#]", after) and not re.match(r"\n#(ifndef|include|if)", after)


def behind(text, found):
    line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
    return line.strip() and not line.lstrip().startswith("*/")


def functions(texts):
    return {name for text in texts for name in re.findall(DECLARED[-1][1], COMMENT.sub("", text))}


def for_doxygen(text, known=()):
    def written(found):
        if banner(found[0]):
            return ""
        back = behind(text, found)
        if not back and not above(text, found):
            return ""
        body = prose.rst(said(found[0]), known).replace("*/", "* /")
        return f"/**{'<' if back else ''}\n@verbatim embed:rst\n{body}\n@endverbatim */"

    def apart(found):
        start, comment = found[1] + found[2], found[4] or ""
        return "\n".join(f"{start}{name};{comment}" for name in found[3].split(", "))

    # Doxygen gives a comment behind several names to the last one: here each has a line.
    text = re.sub(r"(?m)^( +)((?:const )?\w+ )(\*?\w+(?:, \*?\w+)+);( +/\*(?s:.*?)\*/)?", apart, text)
    return "/** @file */\n" + COMMENT.sub(written, text)


def page(name, text, known):
    """reStructuredText of one header."""
    title = f"fovea/{name}" if not name.startswith("fovea") else name
    out = [title, "=" * len(title), ""]
    first = COMMENT.search(text)
    heading = re.match(r"(Fovea(?: over MPI)?: )?(.*)", said(first[0]), re.S)
    out += [prose.rst(heading[2][:1].upper() + heading[2][1:], known), ""]
    pieces = [(found.start(), "text", found[0]) for found in COMMENT.finditer(text)
              if found.start() != first.start() and (banner(found[0]) or not behind(text, found) and not above(text, found))]  # fmt: skip
    code = COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for kind, pattern in DECLARED:
        for found in re.finditer(rf"^(?:{pattern})", code, re.M):
            declared = next(filter(None, found.groups()))
            if not declared.endswith("_H") and declared not in ("FOVEA_API", "FOVEA_DEFINE_INIT"):
                pieces.append((found.start(), kind, declared))
    missed = code.count("\nFOVEA_API ") - sum(kind == "function" and code.startswith("FOVEA_API ", at) for at, kind, _ in pieces)
    if missed:
        raise SystemExit(f"{name}: {missed} functions are not on its page")
    for _, kind, what in sorted(pieces):
        if kind == "text" and banner(what):
            section = said(what).strip("- ")
            section = section[:1].upper() + section[1:]
            out += [section, "-" * len(section), ""]
        elif kind == "text":
            out += [prose.rst(said(what), known), ""]
        else:
            out += [f".. doxygen{kind}:: {what}", *(["   :members:", "   :undoc-members:"] if kind == "struct" else []), ""]
    return "\n".join(out)


def pages(headers, folder):
    texts = {header.name: header.read_text() for header in headers}
    known = functions(texts.values())
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name.removesuffix('.h')}.rst").write_text(page(name, text, known))
    names = "\n".join(name.removesuffix(".h") for name in texts)
    (folder / "index.md").write_text(INDEX.format(names))


if __name__ == "__main__":
    here = pathlib.Path(sys.argv[1])
    print(for_doxygen(here.read_text(), functions(path.read_text() for path in here.parent.glob("*.h"))))
