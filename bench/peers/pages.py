"""The pages of docs/peers, made from the peers.json of each CPU, and the README's picture (headline.py).

    pages.py [--check]        writes all anew; --check: ends with 1 if one is not what this would write
"""

import json
import pathlib
import re
import sys

import cases
import headline
import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER, PICTURE = ROOT / "docs" / "peers", ROOT / "docs/pictures/speed.svg"


def cpu_fields():
    """Facts of the system about its first CPU."""
    fields = {}
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    return fields


def cpu_name():
    """The CPU as the system knows it, with the numbers that tell a generation where the name does not."""
    fields = cpu_fields()
    if "CPU part" in fields:
        return f"Arm (implementer {fields.get('CPU implementer', '?')}, part {fields['CPU part']})"
    name = fields.get("model name", "unknown CPU")
    return f"{name} (family {fields.get('cpu family', '?')}, model {fields.get('model', '?')})"


def cpu_folder():
    """The same as the name of a folder: intel-family6-model207."""
    fields = cpu_fields()
    if "CPU part" in fields:  # Arm
        return f"arm-{fields.get('CPU implementer', '0')}-{fields['CPU part']}"
    vendor = fields.get("vendor_id", "unknown")
    vendor = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(vendor, "".join(filter(str.isalnum, vendor)).lower())
    return f"{vendor}-family{fields.get('cpu family', '0')}-model{fields.get('model', '0')}"


def current():
    """The version of this tree, as in 0.3."""
    return re.search(r'VERSION_STRING "(\d+\.\d+)', (ROOT / "include/fovea/types.h").read_text())[1]


def as_json(run):
    """A case a line."""
    records = ",\n".join(f"  {json.dumps(title)}: {json.dumps(record)}" for title, record in run["cases"].items())
    return json.dumps({**run, "cases": {"": 0}}, indent=1).replace('  "": 0', records) + "\n"


def texts(folder):
    """{path: text} of all pages of a folder, by its runs."""
    runs = {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/peers.json"))}
    found = {folder / "README.md": report.index(cases.CASES, runs, current())}
    for name, run in runs.items():
        found[folder / name / "peers.md"] = report.markdown(cases.CASES, run, current())
    return found


def newest():
    """The latest of the runs that have all cases of the picture."""
    runs = (json.loads(path.read_text()) for path in FOLDER.glob("*/peers.json"))
    return max((run for run in runs if headline.CASES.keys() <= run["cases"].keys()), key=lambda run: run["date"])


def write_all(folder):
    for path, text in texts(folder).items():
        path.write_text(text)
    return 0


def merged(run, path):
    """The run of the CPU's page, with these cases measured anew; None if it was measured with other versions."""
    if not path.exists():
        return run
    old = json.loads(path.read_text())
    for tier, summary in run["tiers"].items():
        if old["tiers"].get(tier, summary)["versions"] != summary["versions"]:
            return None
    return {**run, "tiers": {**old["tiers"], **run["tiers"]}, "cases": {**old["cases"], **run["cases"]}}


def store(folder, run, update):
    """Writes the page of this CPU, and the one that names all; update: keeps the cases that were not measured now."""
    path = folder / cpu_folder() / "peers.json"
    if update:
        run = merged(run, path)
        if not run:
            print(f"not written: {path} has figures of other versions; measure all cases", file=sys.stderr)
            return 1
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_json(run))
    write_all(folder)
    print(f"written: {path}, peers.md; {folder}/README.md", file=sys.stderr)
    return 0


if __name__ == "__main__":
    made = {**texts(FOLDER), PICTURE: headline.svg(newest())}
    stale = [path for path, text in made.items() if path.read_text() != text]
    if "--check" in sys.argv[1:] and stale:
        raise SystemExit(f"not made from its figures: {', '.join(map(str, stale))}; run bench/peers/pages.py")
    for path in stale:
        path.write_text(made[path])
