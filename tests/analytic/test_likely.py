"""What a search runs first: waits of one tile, and of a memory's first channel, by hand."""

from simaccel.analytic.evaluation import FamilyTotals, evaluate
from simaccel.analytic.family import family_of, ints
from simaccel.analytic.likely import first_channel_cycles, slot_cycles
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Keep
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator
from tests.program.programs import GemmTiles, gemm_group


def _whole(*held: str, **dram: object) -> FamilyTotals:
    """Return C = A B of 8 x 1 x 8 elements of 2 B, each in one tile; ``held``: kept around it."""
    of = gemm(m=8, k=1, n=8)
    tiles = GemmTiles(
        m=8, k=1, n=8, order="mnk", stationarity="os", a_slots=1, b_slots=1, out_slots=1
    )
    group = gemm_group(of, "gemm", tiles, keep=("A" not in held, True))
    around = tuple(Keep(name) for name in held)
    return evaluate(family_of(space_of(of, group), group, around), accelerator(dram=dram))


def test_a_slot_is_taken_while_its_tile_moves_and_is_used() -> None:
    """C: 128 B at a byte a cycle and 4 folds of 1 + 3 + 3 cycles; only reads have a latency.

    A and B, 16 B each, come after the latency: 100 + 16 + 28.
    """
    found = _whole(bandwidth_bytes_per_second="1 GB/s", latency_cycles=10)
    assert int(slot_cycles(found)) == 128 + 4 * 7
    late = _whole(bandwidth_bytes_per_second="1 GB/s", latency_cycles=100)
    assert int(slot_cycles(late)) == 128 + 4 * 7
    later = _whole(bandwidth_bytes_per_second="1 GB/s", latency_cycles=200)
    assert int(slot_cycles(later)) == 200 + 16 + 4 * 7


def test_small_tiles_use_the_first_channel_alone() -> None:
    """Two channels of a byte a cycle, in turns of 64 B: B's 16 B are on one, C's 128 B on both."""
    found = _whole(
        "A", bandwidth_bytes_per_second="2 GB/s", channels=2, interleave_bytes=64, latency_cycles=0
    )
    for name, cycles in (("B", 128), ("C", 64), ("A", 64)):  # A has no tile here
        assert int(first_channel_cycles(found, {("dram_read", name): ints(128)})) == cycles
