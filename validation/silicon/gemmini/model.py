"""Gemmini on FireSim: a row of DOSA's files as workload, accelerator, mapping and cycles."""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simaccel import simulate
from simaccel.importers.gemmini import RANKS, gemmini_mapping, parse_gemmini
from simaccel.machine.machine import Run
from simaccel.workload import Workload
from simaccel.workload.einsum import AffineDimension, Einsum, Kind, Operand
from simaccel.workload.tensors import make_tensors
from validation.silicon.runs import loaded

Row = Map[str, str]
_KINDS: Final[dict[str, Kind]] = {"I": "input", "W": "weight", "O": "output"}
MEASURED: Final = Path(__file__).with_name("measured.yaml")
"""Gemmini with memories of any size: a row's mapping fits the row's, for it ran."""


def predict(rows: Sequence[Row]) -> list[int | float]:
    """Return the cycles of each row of a file with DOSA's columns, by the row's own mapping.

    Needed are R, S, P, Q, C, K, N, stride_h, stride_w and mapping.

    Raises:
        InputError: a mapping string that can't be read, or is none of the layer.
    """
    return [simulated(row).cycles for row in rows]


def simulated(row: Row, on: Path = MEASURED, *, commands: bool = True) -> Run:
    """Execute the mapping of a row, the measured program, on an accelerator's file.

    With ``commands`` each iteration at L3 is an instruction that loads anew, and sums stay over
    reductions.

    Raises:
        InputError: its mapping can't be read, or is none of the layer.
        ConservationError: the program would do something else than the layer.
    """
    workload = layer(row)
    mapping = gemmini_mapping(workload, parse_gemmini(row["mapping"]), commands=commands)
    return simulate(workload, loaded(str(on)), mapping).run


def layer(row: Row) -> Workload:
    """Return the layer as a workload of one convolution, its tensors as Gemmini has them (NHWC)."""
    height, width = int(row["stride_h"]), int(row["stride_w"])
    ranks = {rank: int(row[name]) for name, rank in RANKS.items()}
    ranks = {rank: ranks[rank] for rank in "nmcpqrs"}

    def plain(names: str) -> tuple[AffineDimension, ...]:
        return tuple(AffineDimension(((name, 1),)) for name in names)

    rows, columns = (
        AffineDimension((("p", height), ("r", 1))),
        AffineDimension((("q", width), ("s", 1))),
    )
    inputs = (
        Operand("I", (*plain("n"), rows, columns, *plain("c"))),
        Operand("W", plain("rscm")),
    )
    einsum = Einsum("conv", ranks, inputs, Operand("O", plain("npqm")))
    tensors, _ = make_tensors("conv", _KINDS, 1, None)
    return Workload("gemmini", (einsum,), tensors)
