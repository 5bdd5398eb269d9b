"""Reuse by dimension: by hand, and against what the machine moves with DRAM."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import gemm, load_accelerator
from simaccel.hardware import Stationarity
from simaccel.machine.machine import Machine
from simaccel.mapping.space import space_of
from simaccel.mapping.text import parse_text
from simaccel.papers.maestro.analysis.dimensions import Dimension, dimensions_of, dram_bytes_of
from simaccel.program.lowering import lower
from simaccel.workload import Workload, build, conv2d
from tests.drawn_trees import draw_case
from tests.draws import DRAWS


def told(workload: Workload, tree: str, hw: str = "toy") -> list[tuple[str, int, str]]:
    """Return directive, steps and effects of each dimension of one group."""
    head = f"mapping mine of {workload.name} {workload.fingerprint}\n"
    (group,) = parse_text(head + tree).groups
    space = space_of(workload, group)
    return [_texts(one) for one in dimensions_of(space, group, load_accelerator(hw))]


def _texts(one: Dimension) -> tuple[str, int, str]:
    effects = " ".join(f"{each.tensor}:{each.effect}" for each in one.couplings)
    return one.directive, one.steps, effects


def test_a_product_by_hand() -> None:
    """Tiles of 40 x 16, k whole, on 4 x 4 PEs that hold B: 16 x 16 folds, m streams."""
    found = told(
        gemm(m=100, k=64, n=48),
        """
        group gemm
          loop m 40
          loop n 16
          keep A buffer, B buffer x2, C buffer x2
          do gemm array ws
        """,
    )
    assert found == [
        ("TemporalMap(40,40) m", 3, "A:moves B:again C:moves"),
        ("TemporalMap(16,16) n", 3, "A:stays B:moves C:moves"),
        ("TemporalMap(4,4) k", 16, "A:moves B:moves C:returns"),
        ("TemporalMap(4,4) n", 4, "A:again B:moves C:moves"),
        ("SpatialMap(1,1) k on rows", 4, "A:apart B:apart C:summed"),
        ("SpatialMap(1,1) n on cols", 4, "A:multicast B:apart C:apart"),
        ("TemporalMap(1,1) m", 40, "A:moves B:stays C:moves"),
    ]


@pytest.mark.parametrize(
    ("holds", "rows", "cols", "stream"),
    [
        ("ws", ("k", "C:summed"), ("n", "A:multicast"), ("m", "B:stays")),
        ("os", ("m", "B:multicast"), ("n", "A:multicast"), ("k", "C:summed")),
        ("is", ("k", "C:summed"), ("m", "B:multicast"), ("n", "A:stays")),
    ],
)
def test_the_sides_of_a_systolic_array(
    holds: Stationarity, rows: tuple[str, str], cols: tuple[str, str], stream: tuple[str, str]
) -> None:
    """SCALE-Sim, section III: what is held, what streams, and along which side."""
    tree = f"  group gemm\n    keep A buffer, B buffer, C buffer\n    do gemm array {holds}\n"
    found = told(gemm(m=2, k=3, n=4), tree)
    texts = [directive for directive, _, _ in found]
    assert texts == [
        f"SpatialMap(1,1) {rows[0]} on rows",
        f"SpatialMap(1,1) {cols[0]} on cols",
        f"TemporalMap(1,1) {stream[0]}",
    ]
    for (_, _, effects), (_, reuse) in zip(found, (rows, cols, stream), strict=True):
        assert reuse in effects.split()


def test_row_stationary_windows() -> None:
    """Eyeriss: taps on rows, rows of the output on columns; windows overlap along the diagonal."""
    found = told(
        conv2d(m=2, c=1, p=6, q=5, r=3, s=3),
        """
        group conv
          keep I buffer, W buffer, O buffer
          loop m 1
          spread r 1 rows
          spread p 1 cols
          keep I pe, W pe, O pe
          loop q 1
          do conv mac
        """,
        "eyeriss_like",
    )
    effects = {directive: told for directive, _, told in found}
    assert effects["SpatialMap(1,1) r on rows"] == "I:overlaps W:apart O:summed"
    assert effects["SpatialMap(1,1) p on cols"] == "I:overlaps W:multicast O:apart"
    assert effects["TemporalMap(1,1) m"] == "I:stays W:moves O:moves"
    assert effects["TemporalMap(1,1) q"] == "I:moves W:again O:moves"
    assert effects["TemporalMap(1,1) s"] == "I:slides W:moves O:summed"


def test_fused_operators_have_dimensions_each() -> None:
    workload = build("bert", batch=1, seq_len=8, scope="la")
    head = f"mapping mine of {workload.name} {workload.fingerprint}\n"
    tree = """
      group L+softmax+A merging bh=b,h
        loop bh 1
        loop q 4
        keep Q buffer, Z buffer, S buffer
        fork
          | keep K buffer
            do L array os
          | do softmax sfu
          | keep V buffer
            do A array os
    """
    (group,) = parse_text(head + tree).groups
    space = space_of(workload, group)
    found = dimensions_of(space, group, load_accelerator("toy"))
    assert list(dict.fromkeys(one.operator for one in found)) == ["L", "softmax", "A"]
    assert _texts(found[1]) == ("TemporalMap(4,4) q", 2, "Q:moves K:stays S:moves")
    sizes = {one.output.name: one.output.n_bytes for one in space.operators}
    assert dram_bytes_of(space, group)["Z"] == sizes["Z"]
    assert "S" not in dram_bytes_of(space, group)


@settings(max_examples=7 * DRAWS, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_what_crosses_dram_is_what_the_machine_moves(seed: int, spatial: bool) -> None:  # noqa: FBT001
    """To the byte, wherever the directives tell it."""
    case = draw_case(seed, spatial=spatial)
    run = Machine(case.on, lower(case.of, case.mapping)).run()
    for (group, around), one in zip(case.mapping.groups_with_keeps(), run.operators, strict=True):
        if around:
            continue
        told = dram_bytes_of(space_of(case.of, group), group)
        times = case.of.times(group.operators[0])
        for name, n_bytes in told.items():
            ways = ("dram_read", "dram_write")
            assert times * n_bytes == sum(one.moved.get((way, name), 0) for way in ways)
