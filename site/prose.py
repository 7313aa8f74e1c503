"""Comments and docstrings of this tree as reStructuredText. They are plain text: paragraphs, lists of "- ", indented lines that
are shown as they are, and two columns (a name, at least two spaces, its text), which become definitions."""

import re
import textwrap


ROW = re.compile(r"(\S+(?: \S+)*?)  +(?=\S)")


def paragraphs(text):
    """Blocks of lines: where a line is empty, or where indented lines begin or end that do not go on with a second column."""
    block, deep = [], False
    for line in [*text.splitlines(), ""]:
        indented = line.startswith(" ")
        if indented and block and not deep and (row := ROW.match(block[0])):
            indented = len(line) - len(line.lstrip()) != row.end()
        if block and (not line.strip() or indented != deep):
            yield deep, block
            block = []
        if line.strip():
            block.append(line.rstrip())
            deep = indented


def columns(lines):
    """[(name, text)] if these lines are two columns, else []."""
    rows, width = [], None
    for line in lines:
        found = ROW.match(line)
        if found and (width is None or found.end() == width) and "  " not in line[found.end() :]:
            width = found.end()
            rows.append([found[1], line[width:]])
        elif width and re.match(rf"\S{{{width - 1}}} \S", line):  # a name as long as the column
            rows.append([line[: width - 1], line[width:]])
        elif rows and line[:width].isspace() and len(line) > width and not re.search(r"^ |  ", line[width:]):
            rows[-1][1] += " " + line[width:]
        else:
            return []
    return rows


def items(lines):
    found = []
    for line in lines:
        if line.startswith("- "):
            found.append(line[2:])
        elif found and line.startswith("  "):
            found[-1] += " " + line.strip()
        else:
            return []
    return found


CODE = re.compile(
    r"`[^`]+`|(?<![\w.])(?:[A-Za-z]+\.)*[A-Za-z]*_?[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+(?:\(\))?(?![\w_*])|\b(?:\w+\.)*\w+\(\)(?![\w_*])"
)


def inline(text, known=()):
    """A sentence: its identifiers as code, those in `known` as links."""
    out, end = [], 0
    for found in [*CODE.finditer(text), None]:
        plain = text[end : found.start() if found else None]
        out.append(re.sub(r"_(?=\W|$)", r"\\_", re.sub(r"([\\*`|])", r"\\\1", plain)))
        if found:
            name, end = found[0].strip("`"), found.end()
            link = name.removesuffix("()")
            out.append(f"\\ :c:func:`{link}`\\ " if link in known else f"\\ ``{name}``\\ ")
    return "".join(out).strip()


def rst(text, known=()):
    out = []
    for deep, lines in paragraphs(text):
        plain = textwrap.dedent("\n".join(lines)).splitlines()
        if found := items(plain):
            out += [f"* {inline(item, known)}" for item in found]
        elif found := columns(plain):
            for name, said in found:
                out += [f"``{name}``", f"    {inline(said, known)}"]
        elif deep:
            out += ["::", "", *(f"    {line}" for line in plain)]
        else:
            out.append(inline(" ".join(plain), known))
        out.append("")
    return "\n".join(out)
