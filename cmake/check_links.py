#!/usr/bin/env python3
"""Fails where a link in a page of this tree leads nowhere: to a missing file, or a heading that a page does not have."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*/README.md"), *ROOT.glob("tests/*.md")]


def text_of(page):
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page):
    """As GitHub makes them: lower case, words and hyphens, links as their text."""
    found = re.findall(r"^#+ +(.*?) *$", text_of(page), re.M)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)|`", r"\1", one) for one in found)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in plain}


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", text_of(page))


def wrong(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        to = (page.parent / path).resolve() if path else page
        if not to.exists() or (anchor and to.suffix == ".md" and anchor not in anchors(to)):
            yield f"{page.relative_to(ROOT)}: ({target}) leads nowhere"


if __name__ == "__main__":
    pages = sorted(set(PAGES))
    lines, count = [line for page in pages for line in wrong(page)], sum(len(links(page)) for page in pages)
    print("\n".join(lines) or f"{len(pages)} pages, {count} links, and all of them lead somewhere")
    sys.exit(bool(lines) or count < len(pages))
