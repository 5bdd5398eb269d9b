"""The bound of a loop nest by hand, on `toy`: 4 x 4 PEs, 8 B/cycle, 5 cycles of latency."""

import pytest

from simaccel.analytic.block_fills import BlockFills
from simaccel.analytic.evaluation import evaluate
from simaccel.analytic.family import family_of, ints
from simaccel.analytic.nest_bound import NestBound
from simaccel.analytic.units import UnitCosts
from simaccel.hardware import Stationarity
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop
from simaccel.program.lowering import lower
from simaccel.workload import gemm
from tests.program.programs import mapping_of

_TOY = load_accelerator("toy")
_FILL = 5 + 4 + 4 + 1
"""Latency, a 4 x 4 tile of each operand, the NoC's first hop."""
_SHIFT = 4
"""B comes after A; if it is held, its four rows shift in before the first block."""
_WAIT = 5 + 1
"""Of a load: latency and hop."""
_DRAIN = 3 + 3 + 1 + 4
"""The last of four results crosses columns and rows and the NoC's hop; a tile is stored."""


@pytest.mark.parametrize(
    ("shape", "loop", "slots", "held", "between", "drain"),
    [
        # two blocks: the second pair of tiles comes after the first one's use
        ((4, 8, 4), "k", 1, "ws", 4 + _WAIT + 8 + 4, _DRAIN),
        # held sums leave the array later: rows, too, shift out
        ((4, 8, 4), "k", 1, "os", 4 + _WAIT + 8 + 4, _DRAIN + 3),
        # of four pairs two come early; the others after the first block
        ((4, 16, 4), "k", 2, "ws", 4 + _WAIT + 2 * 8 + 4, _DRAIN),
        # each of three weight tiles comes, and shifts in, after the use of the one before
        ((4, 4, 16), "n", 1, "ws", 4 * 4 + 3 * (_WAIT + 4 + 4), _DRAIN),
    ],
)
def test_tiles_come_after_the_use_of_their_predecessors(
    shape: tuple[int, int, int], loop: str, slots: int, held: Stationarity, between: int, drain: int
) -> None:
    m, k, n = shape
    workload = gemm(m=m, k=k, n=n)
    keeps = (Keep(name, slots=slots) for name in "ABC")
    group = Group(operators=("gemm",), tree=(Loop(loop, 4), *keeps, Do("gemm", "array", held)))
    family = family_of(space_of(workload, group), group)
    fills = BlockFills(UnitCosts(family, _TOY))
    bound = int(NestBound(fills, [(loop, ints(4))], slots).cycles())
    assert bound == _FILL + _SHIFT * (held == "ws") + between + drain
    assert bound > int(evaluate(family, _TOY).bound())
    assert bound <= Machine(_TOY, lower(workload, mapping_of(workload, group))).run().cycles
