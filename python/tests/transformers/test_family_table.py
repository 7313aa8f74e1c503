"""docs/families.md against the models that it tells of: some families, and all in make test-all."""

import pathlib
import re

import families
import family_table
import pytest

import fovea.transformers
from fovea.transformers import versions

PAGE = pathlib.Path(__file__).parents[3] / "docs/families.md"
MAKE = "make docs/families.md anew: its first lines say how"
# One of each kind that the page knows, small ones; those that were wrong once; and what optimize() serves.
CHOSEN = ["bert", "t5", "qwen2_vl", "mamba", "big_bird", "deberta-v2", "bigbird_pegasus", "git", "inkling2_text", "bridgetower"]
CHOSEN += ["deepseek_v4", "minimax", "gemma4_audio", "mpnet", "bloom", "falcon", "mpt", "gemma3", "timm_backbone"]


def parts():
    """{title of a part without its count: its families}."""
    found = {}
    for part in PAGE.read_text().split("\n## ")[1:]:
        title, _, text = part.partition("\n")
        names = re.findall(r"^\| ([\w.-]+) \|", text, re.M)[1:] or re.findall(r"`([\w.-]+)`(?:,|$)", text, re.M)
        assert int(title.rpartition("(")[2].rstrip(")")) == len(names), title
        found[title.rpartition(" (")[0]] = names
    return found


def test_page_has_all_families_once():
    names = [name for part in parts().values() for name in part]
    assert sorted(names) == sorted(families.families()), MAKE
    assert len(names) - len(parts()["Not tried"]) > 300
    assert f"families of transformers {versions.NEWEST}" in PAGE.read_text(), MAKE


@pytest.mark.parametrize("name", CHOSEN)
def test_family(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in families.families() if name not in CHOSEN])
def test_other_family(name):
    check(name)


def check(name):
    """Tries a family, and finds what came of it on the page."""
    fovea.transformers.counters.reset()
    found = family_table.record(name)
    titles = {kind: title for kind, title, *_ in family_table._PARTS}
    assert name in parts()[titles[family_table.kind_of(found)]], f"{found}: {MAKE}"
    row = family_table.line(found)
    assert row in PAGE.read_text().splitlines() or row in PAGE.read_text() and not row.startswith("|"), f"{row}: {MAKE}"
