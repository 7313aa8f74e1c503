#!/usr/bin/env python3
"""bits_version.py [--write] [ROOT]: golden hashes, FOVEA_BITS_VERSION, the releases and the CHANGELOG agree (docs/stability.md).

releases, next to this file, has a line for each release: its version, its version of the bits, and how many lines bits-N.inc then had,
with their SHA-256. So a hash that a release had cannot change unless the version of the bits does; new ones go to the end of the file.
--write adds today's line, or replaces it while the CHANGELOG calls the release "Unreleased"."""

import hashlib
import pathlib
import re
import sys

write = "--write" in sys.argv
ROOT = pathlib.Path(([a for a in sys.argv[1:] if a != "--write"] or [pathlib.Path(__file__).resolve().parents[3]])[0])
GOLDEN = ROOT / "tests/kernels/golden"
HEAD = "# release, version of the bits, lines of bits-N.inc, their SHA-256: see bits_version.py\n"


def hashes(bits, count=None):
    lines = [line for line in (GOLDEN / f"bits-{bits}.inc").read_text().splitlines() if line.startswith("{")]
    count = len(lines) if count is None else count
    if count > len(lines):
        sys.exit(f"bits-{bits}.inc has {len(lines)} lines; a release had {count}")
    return count, hashlib.sha256("\n".join(lines[:count]).encode()).hexdigest()


def may_change(before, after):
    """The bits: with a major version; before 1.0 with a minor one."""
    return after[: 1 if after[0] else 2] > before[: 1 if after[0] else 2]


def main():
    header = (ROOT / "include/fovea/types.h").read_text()
    version = re.search(r'FOVEA_VERSION_STRING "(.*)"', header)[1]
    bits = int(re.search(r"#define FOVEA_BITS_VERSION (\d+)", header)[1])
    sections = re.findall(r"^## \[(.*?)\] - (.*)\n+(.*)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    dates = {name: date for name, date, _ in sections}
    first_line = {name: line for name, _, line in sections}
    rows = [line.split() for line in (GOLDEN / "releases").read_text().splitlines() if line[0] != "#"]
    if write:
        if any(r[0] == version for r in rows) and dates.get(version) != "Unreleased":
            sys.exit(f"{version} is released: its line stays")
        rows = [r for r in rows if r[0] != version] + [[version, str(bits), *map(str, hashes(bits))]]
        (GOLDEN / "releases").write_text(HEAD + "".join(" ".join(r) + "\n" for r in rows))

    wrong = []
    before = None
    for name, number, count, digest in rows:
        if hashes(number, int(count))[1] != digest:
            wrong.append(f"{name} gave other hashes than bits-{number}.inc has now: results of version {number} of the bits cannot change."
                         " Raise FOVEA_BITS_VERSION and write a new file, or mend what changed them")  # fmt: skip
        now = tuple(map(int, name.split(".")))
        changed = before is not None and number != before[1]
        if changed and (int(number) != int(before[1]) + 1 or not may_change(before[0], now)):
            wrong.append(f"{name} cannot go from version {before[1]} of the bits to {number}")
        said = re.match(r"Bits: version (\d+)", first_line.get(name, ""))
        if name not in first_line:
            wrong.append(f"CHANGELOG.md has no section [{name}]")
        elif (said and said[1]) != (number if changed else None):
            wrong.append(f'the first line of [{name}] in CHANGELOG.md must {"" if changed else "not "}begin with "Bits: version {number}"')
        before = now, number
    if not rows or rows[-1][:2] != [version, str(bits)]:
        wrong.append(f"releases does not end with {version} and version {bits} of the bits: {sys.argv[0]} --write")
    if f"\n| {bits} | " not in (ROOT / "docs/stability.md").read_text():
        wrong.append(f"docs/stability.md does not list version {bits} of the bits")
    print("\n".join(wrong) or f"{len(rows)} releases, version {bits} of the bits, {hashes(bits)[0]} golden results")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
