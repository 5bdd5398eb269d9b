"""Energy by level, operator and tensor, as a table and on the page."""

from simaccel.experiment.run import simulate
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.page.data import _energy
from simaccel.report.results import operators_table, size_line
from simaccel.report.rows import energy_table
from simaccel.workload import build, gemm
from simaccel.workload.files import parse_workload


def _rows(of: object, hw: str = "toy", dataflow: str = "flex") -> list[list[str]]:
    table = energy_table(simulate(of, load_accelerator(hw), dataflow))  # type: ignore[arg-type]
    assert not isinstance(table, str)
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
    rows = _rows(build("bert", batch=1, seq_len=16, scope="block"), "edge", "naive-m")
    assert sum(row[0].startswith("moving") for row in rows) == 9
    assert any(row[0].endswith(" others") for row in rows)


def test_one_tensor_is_one_other() -> None:
    operators = {
        f"o{at}": {
            "ranks": {"m": 2, "k": 2, "n": 2},
            "inputs": [
                {"tensor": f"T{at}", "projection": ["m", "k"]},
                {"tensor": f"W{at}", "projection": ["k", "n"]},
            ],
            "output": {"tensor": f"T{at + 1}", "projection": ["m", "n"]},
        }
        for at in range(4)
    }
    tensors = {f"T{at}": {"kind": "intermediate"} for at in range(1, 4)}
    tensors |= {f"W{at}": {"kind": "weight"} for at in range(4)}
    tensors |= {"T0": {"kind": "input"}, "T4": {"kind": "output"}}
    document = {"kind": "einsums", "name": "four", "tensors": tensors, "operators": operators}
    rows = _rows(parse_workload(document), dataflow="naive")
    assert "moving 1 other" in [row[0] for row in rows]


def test_energies_that_nobody_gave_are_unknown() -> None:
    """As in a SCALE-Sim configuration, which has none."""
    prices = ("mac_pj", "sfu_pj_per_element", "buffer_pj_per_byte", "noc_pj_per_byte")
    none = [f"energy.{price}=0" for price in (*prices, "dram_pj_per_byte")]
    result = simulate(gemm(m=4, k=4, n=4), load_accelerator("toy", none), "naive")
    assert str(energy_table(result)).startswith("energy: unknown, toy gives no energy.mac_pj, ")
    assert size_line(result).endswith("power: unknown, on the chip unknown")
    (cells,) = (c.cells for c in operators_table(result).columns if str(c.header) == "energy")
    assert {str(cell) for cell in cells} == {"unknown"}


def test_the_page_says_the_shares_of_the_levels() -> None:
    assert _energy({"mac": 1.0, "dram": 3.0, "sfu": 0.0}) == "4 pJ (dram 75%, mac 25%)"


def test_the_page_says_nothing_of_damaged_figures() -> None:
    for figures in (None, {}, {"mac": "1"}, {"mac": -1}, {"mac": 10**400}, {"mac": float("nan")}):
        assert _energy(figures) is None
