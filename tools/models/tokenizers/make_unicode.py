#!/usr/bin/env python3
"""Makes unicode.inc: the general categories that pre-tokenizers ask for, of Unicode 15.1, which llama.cpp has.

    python3.13 make_unicode.py > unicode.inc

Another version of Python is refused: its unicodedata has other characters.
"""
import unicodedata

VERSION = "15.1.0"
SPACES = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
OTHER, LETTER, NUMBER, SPACE, MARK = range(5)  # tk_class


def class_of(code):
    if code in SPACES:
        return SPACE
    return {"L": LETTER, "M": MARK, "N": NUMBER}.get(unicodedata.category(chr(code))[0], OTHER)


def runs():
    """Length and class of each run of characters, in one number."""
    begin, before = 0, class_of(0)
    for code in range(1, 0x110000):
        now = class_of(code)
        if now != before:
            yield (code - begin) * 8 + before
            begin, before = code, now


def main():
    if unicodedata.unidata_version != VERSION:
        raise SystemExit(f"make_unicode.py: needs a Python with Unicode {VERSION}, not {unicodedata.unidata_version}")
    line = f"/* Made by make_unicode.py: Unicode {VERSION}. */\n"
    for run in runs():
        text = f"{run},"
        if len(line.split("\n")[-1]) + len(text) > 120:
            line += "\n"
        line += text
    print(line)


if __name__ == "__main__":
    main()
