"""The site: pages of docs/ and of folders, headers by Doxygen and Breathe, the Python package by its sources and stubs. site/build.sh
builds it over a copy of the tree's pages in build/site/source."""

import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCE = ROOT / "build/site/source"
sys.path[:0] = [str(ROOT / "site"), str(ROOT / "python")]
import headers  # noqa: E402
import package  # noqa: E402

project, author, copyright = "Fovea", "Fovea maintainers", "Fovea maintainers"
release = version = re.search(r'FOVEA_VERSION_STRING "(.*)"', (ROOT / "include/fovea/types.h").read_text())[1]
extensions = ["myst_parser", "breathe", "sphinx_copybutton"]
root_doc = "index"
# Any page of the tree may be linked to; index.md has those that readers look for.
include_patterns = ["**.md", "reference/**"]
exclude_patterns = ["site"]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
# Blocks of pages that tests run are marked with the module that they need: ```python torch. The mark is no option of Sphinx's.
suppress_warnings = ["misc.highlighting_failure", "myst.header", "toc.not_included"]
highlight_language = "text"

html_theme = "furo"
html_title = f"Fovea {version}"
html_static_path = ["static"]
html_css_files = ["style.css"]
templates_path = ["templates"]
html_show_sphinx = False
html_copy_source = html_show_sourcelink = False
# A site of several versions, each in a folder with its number: FOVEA_SITE_VERSIONS="1.0 0.4" shows a switch between them.
html_context = {"versions": os.environ.get("FOVEA_SITE_VERSIONS", version).split(), "current": version}
_parts = ["brand", "search", "scroll-start", "navigation", "scroll-end"]
html_sidebars = {"**": [f"sidebar/{part}.html" for part in _parts] + ["versions.html"]}

breathe_projects = {"fovea": str(ROOT / "build/site/xml")}
breathe_default_project = "fovea"
breathe_domain_by_extension = {"h": "c"}
breathe_show_include = False
breathe_show_enumvalue_initializer = True


def without_folders(app, page, text):
    """Links to folders of the tree become their text; the headers' folder is a page here."""
    here = (SOURCE / page).parent

    def link(found):
        to = (here / found[2]).resolve()
        if to == SOURCE / "include/fovea":
            return f"[{found[1]}]({os.path.relpath(SOURCE / 'reference/c/index.md', here)})"
        return found[1] if to.is_dir() else found[0]

    text[0] = re.sub(r"\[([^][]*)\]\(([^():#\s]+)\)", link, text[0])


def setup(app):
    all_headers = [*ROOT.glob("include/fovea/*.h"), *ROOT.glob("integrations/mpi/include/*.h")]
    headers.pages([path for path in sorted(all_headers) if path.name != "fovea.h"], SOURCE / "reference/c")
    package.pages(ROOT, SOURCE / "reference/python")
    app.connect("source-read", without_folders)
