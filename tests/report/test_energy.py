"""Energy by level, operator and tensor, as a table and on the page."""

from simaccel.experiment.run import simulate
from simaccel.hardware.load import load_accelerator
from simaccel.report.energy import energy_table
from simaccel.report.page.data import _energy
from simaccel.workload import build, gemm


def _rows(of: object, hw: str = "toy", dataflow: str = "flex") -> list[list[str]]:
    table = energy_table(simulate(of, load_accelerator(hw), dataflow))  # type: ignore[arg-type]
    cells = [[str(cell) for cell in column.cells] for column in table.columns]
    return [list(row) for row in zip(*cells, strict=True)]


def test_a_gemm_that_can_be_added_up_by_hand() -> None:
    """Toy, 4 x 4 x 4: 64 MACs of 1 pJ; 32 B of each tensor over DRAM at 100 pJ, NoC at 1 pJ.

    A, B and C pass the buffer twice, 64 B of each at 5 pJ.
    """
    rows = _rows(gemm(m=4, k=4, n=4), dataflow="naive")
    moved = ["", "320 pJ", "32 pJ", "3.20 nJ", "3.55 nJ", "33.1%"]
    assert rows[0] == ["gemm", "64 pJ", "960 pJ", "96 pJ", "9.60 nJ", "10.7 nJ", "100.0%"]
    assert rows[1:4] == [[f"moving {tensor}", *moved] for tensor in "ABC"]
    assert rows[4] == ["total", *rows[0][1:]]


def test_many_tensors_share_the_last_row() -> None:
    rows = _rows(build("bert", batch=1, seq_len=16, scope="block"), "edge")
    assert sum(row[0].startswith("moving") for row in rows) == 9
    assert any(row[0].endswith(" others") for row in rows)


def test_the_page_says_the_shares_of_the_levels() -> None:
    assert _energy({"mac": 1.0, "dram": 3.0, "sfu": 0.0}) == "4 pJ (dram 75%, mac 25%)"


def test_the_page_says_nothing_of_damaged_figures() -> None:
    for figures in (None, {}, {"mac": "1"}, {"mac": -1}, {"mac": 10**400}, {"mac": float("nan")}):
        assert _energy(figures) is None
