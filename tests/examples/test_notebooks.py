"""The notebooks run from first cell to last, in a kernel, and are kept without outputs."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))
SHOWS = {
    "first_hour": {"image/png": 2, "text/html": 5},
    "own_scheduler": {"image/png": 1, "text/html": 2},
    "validate_my_estimate": {"image/png": 2, "text/html": 3},
    "why_is_it_slow": {"image/png": 2, "text/html": 3},
}
"""Pictures and tables that each shows."""


def _read(path: Path) -> Any:  # noqa: ANN401 - nbformat has no types
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_without_outputs(path: Path) -> None:
    notebook = _read(path)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_the_notebooks_run_and_show_their_tables_and_pictures() -> None:
    """One kernel for all of them, as starting one takes a second; each begins without names."""
    assert [path.stem for path in NOTEBOOKS] == sorted(SHOWS)
    whole = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    place: list[str] = []
    for path in NOTEBOOKS:
        for cell in [nbformat.v4.new_code_cell("%reset -f"), *_read(path).cells]:  # type: ignore[no-untyped-call]
            cell.id = f"{path.stem}-{len(place)}"
            whole.cells.append(cell)
            place.append(path.stem)
    there = {"metadata": {"path": str(EXAMPLES)}}
    NotebookClient(whole, timeout=100, kernel_name="python3", resources=there).execute()
    shown: dict[str, dict[str, int]] = {}
    for name, cell in zip(place, whole.cells, strict=True):
        for output in cell.get("outputs", ()):
            for kind in output.get("data", {}):
                counts = shown.setdefault(name, {})
                counts[kind] = counts.get(kind, 0) + 1
    assert {
        name: {kind: shown[name].get(kind, 0) for kind in kinds} for name, kinds in SHOWS.items()
    } == SHOWS
