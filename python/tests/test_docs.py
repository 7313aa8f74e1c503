"""The code of docs/python.md runs, block after block, in one namespace. A block marked with a module's name needs that module."""

import importlib.util
import pathlib
import re

import pytest

PAGES = [pathlib.Path(__file__).parents[2] / "docs/python.md", pathlib.Path(__file__).parents[1] / "README.md"]
BLOCKS = [
    (page, page.read_text()[: found.start()].count("\n") + 2, *found.groups())
    for page in PAGES
    if page.exists()
    for found in re.finditer(r"^```python ?(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S)
]
namespaces = {page: {} for page in PAGES}


def test_pages_have_code():
    assert len(BLOCKS) > 10


@pytest.mark.parametrize(("page", "line", "module", "code"), BLOCKS, ids=lambda x: str(x) if isinstance(x, int) else "")
def test_block(page, line, module, code):
    if module and not importlib.util.find_spec(module):
        pytest.skip(f"{page.name}:{line} needs {module}")
    exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespaces[page])
