"""Gemmini on FireSim: a row of DOSA's files as workload, accelerator, mapping and cycles."""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from simaccel import simulate
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.importers.gemmini import RANKS, gemmini_mapping, parse_gemmini
from simaccel.machine.machine import Run
from simaccel.workload import Workload
from simaccel.workload.einsum import AffineDimension, Einsum, Kind, Operand
from simaccel.workload.tensors import make_tensors

Row = Map[str, str]
_KINDS: Final[dict[str, Kind]] = {"I": "input", "W": "weight", "O": "output"}
_DOUBLED: Final = 2
"""Halves of scratchpad and accumulator, of two loop instructions at once (LoopConv.scala)."""
_SUMS_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a row is run: its last mechanisms may be left out, to see what each does."""

    blocks: bool = True
    """Instructions of at most 16 positions of one output row, five in the array at once."""
    commands: bool = True
    """Each iteration at L3 is an instruction that loads anew; sums stay over reductions."""
    requests: bool = True
    """A DMA request for each row of a tile, 16 on their way."""
    settings: tuple[str, ...] = ()
    """Overrides of the accelerator, such as dram.latency_cycles=50."""


WHOLE: Final = Way()


def predict(rows: Sequence[Row]) -> list[int | float]:
    """Return the cycles of each row of a file with DOSA's columns, by the row's own mapping.

    Needed are R, S, P, Q, C, K, N, stride_h, stride_w and mapping; without sizes of the scratchpad
    and the accumulator they have no limit.

    Raises:
        InputError: a mapping string that can't be read, or is none of the layer.

    """
    return [cycles(row) for row in rows]


def cycles(row: Row, way: Way = WHOLE) -> int:
    """Return the cycles of one row; errors as of `simulated`."""
    return simulated(row, way).cycles


def simulated(row: Row, way: Way = WHOLE) -> Run:
    """Execute the mapping of a row, the measured program, on the accelerator.

    Raises:
        InputError: its mapping can't be read, or is none of the layer.
        ConservationError: the program would do something else than the layer.

    """
    workload = layer(row)
    mapping = gemmini_mapping(workload, parse_gemmini(row["mapping"]), commands=way.commands)
    return simulate(workload, accelerator_of(row, way), mapping).run


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


def accelerator_of(row: Row, way: Way = WHOLE) -> Accelerator:
    """Return the accelerator with the memories of the row."""
    scratchpad = row.get("scratchpad_entries_8b", "")
    entries = row.get("accumulator_entries_32b_per_column", "")
    return _accelerator(scratchpad, entries, way)


@cache
def _accelerator(scratchpad: str, entries: str, way: Way) -> Accelerator:
    settings = ["buffer.capacity_bytes=unlimited", "array.accumulator.capacity_bytes=unlimited"]
    if scratchpad and entries:
        cols = load_accelerator("gemmini_16").array.cols
        outputs = int(entries) * cols
        settings = [
            f"buffer.capacity_bytes={_DOUBLED * (int(scratchpad) + outputs)}",
            f"array.accumulator.capacity_bytes={_DOUBLED * outputs * _SUMS_BYTES}",
        ]
    settings += way.settings
    whole = load_accelerator("gemmini_16", settings)
    if not way.blocks:
        whole = whole.model_copy(
            update={"array": whole.systolic.model_copy(update={"blocks": None})}
        )
    if not way.requests:
        without = {"model": "channel", "request_bytes": None, "requests_in_flight": None}
        whole = whole.model_copy(update={"dram": whole.dram.model_copy(update=without)})
    return whole
