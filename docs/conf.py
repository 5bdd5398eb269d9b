"""The pages as a web site with a Python reference: `make site` builds it into `out/site`.

The sources are the Markdown files where they lie, so that links between them, and to other files of
the repository, are the same here and in the repository. A link that leads nowhere, a heading that
isn't there and a docstring that isn't well formed end the build.
"""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

REPOSITORY = Path(__file__).parents[1]
GENERATED = REPOSITORY / "docs" / "reference" / "generated"
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "simaccel"
author = PROJECT["authors"][0]["name"]
version = release = PROJECT["version"]

root_doc = "README"
include_patterns = [
    "*.md",
    "benchmarks/*.md",
    "docs/*.md",
    "docs/**/*.md",
    "docs/**/*.rst",
    "examples/journeys/*.md",
    "traces/*.md",
    "validation/**/*.md",
]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
myst_heading_anchors = 4
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
toc_object_entries = False  # the navigation of each page would go through all of them
suppress_warnings = [
    "myst.header",  # tables that scripts write into a README bring headings of a level of their own
    "ref.python",  # names that stand in several modules; a signature says which by where it stands
]

html_theme = "furo"
html_title = f"simaccel {version}"
html_copy_source = False

TREES = {
    "README": (
        ("Guide", ("docs/guide/README", "GUIDE", "examples/journeys/*")),
        ("Model", ("docs/model", "docs/glossary", "docs/trust", "docs/obstacles")),
        ("Evidence", ("validation/**", "benchmarks/README")),
        (
            "Inside",
            (
                "docs/architecture",
                "docs/tour",
                "docs/reference/index",
                "docs/decisions/README",
                "traces/README",
                "CONTRIBUTING",
                "CHANGELOG",
            ),
        ),
    ),
    "docs/decisions/README": (("", ("docs/decisions/*",)),),
}
"""What the navigation shows below a page: captions, and pages or patterns. GUIDE stands for the
pages of the guide as its own page lists them."""


def navigation(page: str) -> str:
    """Return the directives that put pages below a page in the navigation."""
    listed = re.findall(
        r"^\|.*\]\(([^/)\s]+)\.md\)",
        (REPOSITORY / "docs/guide/README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    text = ""
    for caption, pages in TREES.get(page, ()):
        lines = [
            f"/{one}"
            for entry in pages
            for one in (
                [f"docs/guide/{name}" for name in dict.fromkeys(listed)]
                if entry == "GUIDE"
                else [entry]
            )
        ]
        options = [":hidden:", ":glob:", *([f":caption: {caption}"] if caption else []), ""]
        text += "\n".join(("\n```{toctree}", *options, *lines, "```", ""))
    return text


def reference(package: Path) -> str:
    """Return a page with all modules of a package, whatever its folders below have on their own."""
    name = ".".join(package.relative_to(REPOSITORY).parts)
    modules = [f"{name}.{path.stem}" for path in sorted(package.glob("[!_]*.py"))]
    text = f"{name}\n{'=' * len(name)}\n\n.. automodule:: {name}\n"
    if modules and name != "simaccel":  # elsewhere a package's names are those of its modules
        text += "   :no-members:\n"
    for module in modules:
        text += f"\n{module}\n{'-' * len(module)}\n\n.. automodule:: {module}\n"
    return text


def _write_reference(_app: Sphinx) -> None:
    GENERATED.mkdir(exist_ok=True)
    for old in GENERATED.glob("*.rst"):
        old.unlink()
    for path in REPOSITORY.glob("simaccel/**/__init__.py"):
        package = path.parent
        name = ".".join(package.relative_to(REPOSITORY).parts)
        (GENERATED / f"{name}.rst").write_text(reference(package), encoding="utf-8")


def _add_navigation(_app: Sphinx, page: str, source: list[str]) -> None:
    source[0] += navigation(page)


def _add_front_page(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        forward = '<!doctype html><meta http-equiv="refresh" content="0; url=README.html">\n'
        (Path(app.outdir) / "index.html").write_text(forward, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Add the reference, the navigation below pages that don't know of it, and a front page."""
    app.connect("builder-inited", _write_reference)
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _add_front_page)
