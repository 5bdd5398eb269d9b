"""One GEMM on the machine, memory and NoC unlimited: only the array's own cycles remain."""

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, Accelerator, Stationarity
from simaccel.machine.folds import Fold, FoldLoop, folds_of
from simaccel.machine.machine import Machine, Run
from simaccel.program.interpreter import interpret
from simaccel.program.program import Compute, Folds, commands
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator
from tests.machine.systolic_reference import gemm as stepped_gemm
from tests.machine.systolic_reference import stream_gemm
from tests.program.programs import gemm_case, gemm_operands

SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 11, 13])
SIDES = st.sampled_from([1, 2, 3, 4, 5, 7])
SHAPES = st.tuples(SIZES, SIZES, SIZES)
ARRAYS = st.tuples(SIDES, SIDES)
Shape = tuple[int, int, int]
Side = tuple[int, int]


def _array(sides: Side, overlap: str = "none", edge_folds: str = "full") -> Accelerator:
    rows, cols = sides
    array = {"rows": rows, "cols": cols, "overlap": overlap, "edge_folds": edge_folds}
    return accelerator(array=array)


def _run(on: Accelerator, shape: Shape, stationarity: Stationarity, batch: int = 1) -> Run:
    m, k, n = shape
    whole = gemm_case(gemm(m=m, k=k, n=n, batch=batch), stationarity=stationarity)
    return Machine(on, whole.program).run()


def _parts(size: int, side: int) -> list[int]:
    return [min(side, size - start) for start in range(0, size, side)]


@pytest.mark.parametrize("edge_folds", ["full", "used"])
@pytest.mark.parametrize("stationarity", STATIONARITIES)
@given(shape=SHAPES, sides=ARRAYS)
def test_cycles_and_product_equal_those_of_stepped_pes(
    stationarity: Stationarity, edge_folds: str, shape: Shape, sides: Side
) -> None:
    m, k, n = shape
    whole = gemm_case(gemm(m=m, k=k, n=n), stationarity=stationarity)
    a, b = gemm_operands(whole.workload)
    product, cycles = stepped_gemm(
        a[0].astype(np.int64),
        b[0].astype(np.int64),
        rows=sides[0],
        cols=sides[1],
        stationarity=stationarity,
        used_only=edge_folds == "used",
    )
    run = Machine(_array(sides, edge_folds=edge_folds), whole.program).run()
    computed = interpret(whole.program, {"A": a, "B": b, "C": np.full((1, m, n), np.nan)})
    assert run.cycles == cycles
    assert run.engines["array"].busy == cycles
    np.testing.assert_array_equal(computed["C"][0], product)


@pytest.mark.parametrize("stationarity", STATIONARITIES)
@given(
    shape=st.tuples(*[st.integers(1, 2000)] * 3),
    sides=st.tuples(*[st.sampled_from([16, 31, 64, 128])] * 2),
)
def test_cycles_equal_scalesims_formula_on_large_arrays(
    stationarity: Stationarity, shape: Shape, sides: Side
) -> None:
    (m, k, n), (rows, cols) = shape, sides
    expected = {
        "os": ceil(m / rows) * ceil(n / cols) * (k + rows + cols - 2),
        "ws": ceil(k / rows) * ceil(n / cols) * (m + 2 * rows + cols - 2),
        "is": ceil(k / rows) * ceil(m / cols) * (n + 2 * rows + cols - 2),
    }
    assert _run(_array(sides), shape, stationarity).cycles == expected[stationarity]


@pytest.mark.parametrize("stationarity", ["ws", "is"])
@pytest.mark.parametrize("edge_folds", ["full", "used"])
@given(shape=SHAPES, sides=ARRAYS)
def test_streamed_folds_take_the_cycles_of_stepped_pes(
    stationarity: Stationarity, edge_folds: str, shape: Shape, sides: Side
) -> None:
    """The last fold, which no preload follows, is charged its stream and the skew.

    Where only used PEs count, it may be short and leave before the one ahead of it.
    """
    (m, k, n), (rows, cols) = shape, sides
    a, b = (x[0].astype(np.int64) for x in gemm_operands(gemm(m=m, k=k, n=n)))
    if stationarity == "is":
        a, b = b.T, a.T
    _, cycles = stream_gemm(a, b, rows=rows, cols=cols, used_only=edge_folds == "used")
    assert _run(_array(sides, "stream", edge_folds), shape, stationarity).cycles == cycles


@pytest.mark.parametrize("stationarity", ["ws", "is"])
@pytest.mark.parametrize("edge_folds", ["full", "used"])
@given(shape=SHAPES, sides=ARRAYS)
def test_preloaded_folds_hide_all_preloads_but_the_first(
    stationarity: Stationarity, edge_folds: str, shape: Shape, sides: Side
) -> None:
    """A small edge fold may be over before the rows that follow it have been loaded."""
    m, k, n = shape
    (rows, cols) = sides
    wide, stream = (n, m) if stationarity == "ws" else (m, n)
    folds = [(r, c) for c in _parts(wide, cols) for r in _parts(k, rows)]
    charged = folds if edge_folds == "used" else [sides] * len(folds)
    loads = [r for r, _ in charged] + [0]
    expected = loads[0] + sum(
        max(stream + r + c - 2, after) for (r, c), after in zip(charged, loads[1:], strict=True)
    )
    assert _run(_array(sides, "preload", edge_folds), shape, stationarity).cycles == expected


@pytest.mark.parametrize("overlap", ["preload", "stream"])
@given(shape=SHAPES, sides=ARRAYS)
def test_output_stationary_sums_leave_through_the_rows(
    overlap: str, shape: Shape, sides: Side
) -> None:
    """The last fold's sums take a cycle for each row after the first; others leave meanwhile."""
    (m, k, n), (rows, cols) = shape, sides
    folds = ceil(m / rows) * ceil(n / cols)
    apart = max(k, rows) if overlap == "stream" else k + rows + cols - 2
    expected = (folds - 1) * apart + k + rows + cols - 2 + rows - 1
    assert _run(_array(sides, overlap), shape, "os").cycles == expected


def test_folds_that_stream_overlap_by_hand() -> None:
    """Ws, 9 x 7 x 5 on 4 x 4: preload 4, three folds of max(9, 4), the last 9 + skew 6."""
    assert _run(_array((4, 4), "stream"), (9, 7, 5), "ws").cycles == 4 + 3 * 9 + 9 + 6
    # a stream of 2 is shorter than the preload of 4 behind it
    assert _run(_array((4, 4), "stream"), (2, 7, 5), "ws").cycles == 4 + 3 * 4 + 2 + 6
    # os: six folds of 7 steps, skew 6, and the first row's sums pass the three rows below
    assert _run(_array((4, 4), "stream"), (9, 7, 5), "os").cycles == 6 * 7 + 6 + 3


@pytest.mark.parametrize("stationarity", STATIONARITIES)
@given(shape=SHAPES, sides=ARRAYS, batch=st.integers(1, 4))
def test_a_batch_repeats_its_loads_and_gemms(
    stationarity: Stationarity, shape: Shape, sides: Side, batch: int
) -> None:
    alone = _run(_array(sides), shape, stationarity)
    together = _run(_array(sides), shape, stationarity, batch=batch)
    assert together.cycles == batch * alone.cycles
    assert together.macs == batch * alone.macs == batch * shape[0] * shape[1] * shape[2]


def _flat(nodes: tuple[Fold | FoldLoop, ...]) -> list[Fold]:
    found: list[Fold] = []
    for node in nodes:
        found += _flat(node.body) * node.trips if isinstance(node, FoldLoop) else [node]
    return found


@pytest.mark.parametrize("stationarity", STATIONARITIES)
@given(shape=SHAPES, sides=ARRAYS)
def test_each_fold_moves_the_operands_of_its_pes(
    stationarity: Stationarity, shape: Shape, sides: Side
) -> None:
    """Bytes through the ports, fold by fold, two bytes an element."""
    (m, k, n), (rows, cols) = shape, sides
    high, wide, stream = {"ws": (k, n, m), "os": (m, n, k), "is": (k, m, n)}[stationarity]
    expected = {"A": 0, "B": 0, "sums": 0, "C": 0}
    for c in _parts(wide, cols):
        for index, r in enumerate(_parts(high, rows)):
            along_rows, held, across = 2 * r * stream, 2 * r * c, 2 * c * stream
            expected["A"] += along_rows if stationarity != "is" else held
            expected["B"] += {"ws": held, "os": across, "is": along_rows}[stationarity]
            made = held if stationarity == "os" else across
            expected["C"] += made
            expected["sums"] += made if stationarity != "os" and index else 0
    run = _run(_array(sides), shape, stationarity)
    # A and B leave the buffer for the array, C for DRAM as well
    moved = {name: run.moved[("buffer_read", name)] for name in "ABC"}
    assert moved == {"A": expected["A"], "B": expected["B"], "C": expected["sums"] + 2 * m * n}
    assert run.moved[("buffer_write", "C")] == expected["C"]
    assert run.moved[("noc_collection", "C")] == expected["C"]


@given(shape=SHAPES, sides=ARRAYS)
def test_folds_follow_one_another_down_the_reduction(shape: Shape, sides: Side) -> None:
    m, k, n = shape
    whole = gemm_case(gemm(m=m, k=k, n=n))
    (command,) = (c for c in commands(whole.program.body) if isinstance(c, Compute))
    folds = folds_of(command, Folds("ws"), _array(sides)).folds
    first = [fold.sums_bytes == 0 for fold in _flat((folds,))]
    assert first == [i == 0 for _ in _parts(n, sides[1]) for i in range(ceil(k / sides[0]))]


def test_pipes_add_their_latency_once_and_throttle_each_fold() -> None:
    """Weight-stationary 4 x 4 x 4 on 4 x 4: preload 4 + stream 4 + skew 6 = 14 cycles.

    The fold's operands are 2 * 16 B of A and as much of B. The bus takes 1 B per cycle, so 64
    cycles instead of 14; one hop of 3 cycles before and one of 2 cycles after the GEMM.
    """
    noc = {
        "distribution": {"topology": "bus", "link_bytes_per_cycle": 1, "hop_cycles": 3},
        "collection": {"topology": "bus", "link_bytes_per_cycle": 4, "hop_cycles": 2},
    }
    run = _run(accelerator(noc=noc), (4, 4, 4), "ws")
    assert run.cycles == 3 + 64 + 2
    assert run.engines["array"].busy == 14
    assert run.engines["array"].stalls == {"noc": 3 + (64 - 14) + 2}


def test_a_pipe_without_multicast_sends_a_word_to_each_pe() -> None:
    """Weight-stationary: each A goes to 4 columns, 4 * 32 + 32 = 160 B at 8 B per cycle."""
    pipe = {"topology": "crossbar", "link_bytes_per_cycle": 1, "hop_cycles": 0}
    noc = {"distribution": pipe | {"multicast": False}, "collection": {"topology": "unlimited"}}
    run = _run(accelerator(noc=noc), (4, 4, 4), "ws")
    assert run.cycles == 160 // 8
    assert run.moved[("noc_distribution", "A")] == 4 * 32
    assert run.moved[("noc_distribution", "B")] == 32


def test_the_read_port_throttles_a_fold() -> None:
    """64 B of operands at 2 B per cycle are 32 cycles; the store reads 32 B after the fold."""
    run = _run(accelerator(buffer={"read_bytes_per_second": "2 GB/s"}), (4, 4, 4), "ws")
    assert run.cycles == 32 + 16
    assert run.engines["array"].busy == 14
    assert run.engines["array"].stalls["buffer_port"] == 32 - 14
