"""Fronts against all pairs, and against simulating every mapping of a small space."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.analytic.family import Ints
from simaccel.analytic.prediction import predict
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.tree import Do, Fork, Group, Keep, Loop, Node, Tree
from simaccel.pareto import pick_evenly, undominated_rows
from simaccel.program.lowering import lower
from simaccel.schedulers import NothingFitsError, Options
from simaccel.schedulers.attention import problem_of
from simaccel.schedulers.flat import block_sizes, flat_tiles, other_rows
from simaccel.search.effort import Effort, Objective
from simaccel.search.front import (
    FIGURES,
    Alternative,
    Figure,
    Floats,
    FrontFigures,
    front_of,
    join_alternatives,
)
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import simulate
from simaccel.study.fronts import FRONT_COLUMNS, front_figures, pareto
from simaccel.study.points import Record
from simaccel.workload import Workload
from tests.agreement import dram_total
from tests.draws import DRAWS, some
from tests.program.programs import LA, attention_workload
from tests.trees import einsum, vector
from tests.trees import workload as make_workload

_FEW = settings(max_examples=5 * DRAWS, deadline=None)


def _beats(one: Floats, other: Floats) -> bool:
    return bool((one <= other).all() and (one < other).any())


def _front_by_pairs(rows: Floats) -> set[tuple[float, ...]]:
    """Rows that no other one equals or beats in all columns and beats in one."""
    return {tuple(row) for row in rows if not any(_beats(other, row) for other in rows)}


_rows = st.integers(2, 3).flatmap(
    lambda n: st.lists(
        st.lists(st.integers(0, 6), min_size=n, max_size=n), min_size=1, max_size=25
    ).map(lambda rows: np.array(rows, dtype=np.float64))
)


@_FEW
@given(_rows)
def test_the_front_is_that_of_all_pairs(rows: Floats) -> None:
    kept = undominated_rows(rows)
    found = [tuple(rows[at]) for at in kept]
    assert sorted(found) == found
    assert len(found) == len({*found})
    assert {*found} == _front_by_pairs(rows)


@_FEW
@given(_rows, st.data(), st.integers(1, 4))
def test_candidates_that_are_not_judged_are_beaten(
    rows: Floats, data: st.DataObject, chunk: int
) -> None:
    """The front by bounds is that of judging all, and none is judged twice."""
    below = data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    least, seen = rows - np.array(below)[:, None], []

    def judge(which: Ints) -> Floats:
        seen.extend(which.tolist())
        return np.asarray(rows[which], dtype=np.float64)

    front = front_of(least, judge, chunk=chunk)
    assert {tuple(rows[at]) for at in front} == _front_by_pairs(rows)
    assert len(seen) == len({*seen})


def _alternative(cycles: int, energy: int, dram: int, space: int) -> Alternative:
    return Alternative((), cycles, energy, dram, space)


_alternatives = st.lists(
    st.tuples(*[st.integers(0, 6)] * 4).map(lambda one: _alternative(*one)), min_size=1, max_size=8
)


@_FEW
@given(_alternatives, _alternatives, st.permutations(FIGURES))
def test_parts_join_as_all_pairs_do(
    first: list[Alternative], second: list[Alternative], figures: list[Figure]
) -> None:
    """Cycles, energy and bytes moved add up; of buffers the larger one counts."""
    asked = FrontFigures(figures[0], figures[1])
    pairs = np.array(
        [
            (
                one.cycles + other.cycles,
                one.energy_pj + other.energy_pj,
                one.dram_bytes + other.dram_bytes,
                max(one.buffer_bytes, other.buffer_bytes),
            )
            for one, other in product(first, second)
        ],
        dtype=np.float64,
    )[:, asked.parts]
    found = np.array([one.parts for one in join_alternatives(asked, first, second)])[:, asked.parts]
    assert {tuple(row) for row in found} == _front_by_pairs(pairs)


@pytest.mark.parametrize(("n", "most"), [(1, 1), (5, 9), (9, 5), (1000, 64)])
def test_some_that_lie_evenly_have_both_ends(n: int, most: int) -> None:
    found = pick_evenly(np.arange(n), most).tolist()
    assert len(found) == min(n, most)
    assert found[0] == 0
    assert most == 1 or found[-1] == n - 1


@pytest.mark.parametrize("extent", [1, 2, 18, 48, 97])
def test_blocks_of_all_numbers_of_pieces(extent: int) -> None:
    """Each number of pieces that some block makes is made by one, and by none smaller."""
    sizes = block_sizes(extent)
    counts = [-(-extent // size) for size in sizes]
    assert counts == sorted({-(-extent // size) for size in range(1, extent + 1)}, reverse=True)
    assert all(
        size == 1 or -(-extent // (size - 1)) > n for size, n in zip(sizes, counts, strict=True)
    )


# -- every mapping of a small space, simulated ----------------------------------------------------

_TINY = attention_workload(1, 2, 3, 2)
_SLOW = ("dram.bandwidth_bytes_per_second=2 GB/s", "dram.interleave_bytes=16 B")
_FUSES = ("compiler.epilogues=true", "compiler.resident=true")


def _on(capacity: str) -> Accelerator:
    return load_accelerator("toy", [f"buffer.capacity_bytes={capacity}", *_SLOW])


def _tree(heads: int, rows: int, keys: int, slots: int) -> Tree:
    """A FLAT-tile as section 5.1 of FLAT has it, with key tiles; written down by hand."""

    def cut(rank: str, size: int, whole: int) -> tuple[Node, ...]:
        return (Loop(rank, size),) if size < whole else ()

    def branch(tensor: str, name: str) -> Tree:
        return (*cut("c", keys, 3), Keep(tensor, slots=slots), Do(name, "array", "ws"))

    return (
        *cut("bh", heads, 3),
        *cut("q", rows, 3),
        Keep("Q", slots=slots),
        Keep("Z", slots=slots),
        Keep("S"),
        Fork((branch("K", "L"), (Do("softmax", "sfu"),), branch("V", "A"))),
    )


def _taken(front: Record, *names: Figure) -> Floats:
    return np.array([[one[FRONT_COLUMNS[name]] for name in names] for one in front["points"]])


@cache
def _every_flat_tile(capacity: str) -> list[dict[Figure, float]]:
    """Simulate each of the 54 mappings; figures of those that fit."""
    on = _on(capacity)
    merged = problem_of(_TINY, LA).merged
    assert {*merged} == {"bh"}
    found: list[dict[Figure, float]] = []
    for heads, rows, keys, slots in product((1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2)):
        group = Group(operators=LA, tree=_tree(heads, rows, keys, slots), merged=merged)
        mapping = mapping_of(_TINY, "", (group,))
        need = predict(_TINY, mapping, on).buffer_bytes
        if need > (on.buffer.capacity_bytes or need):
            continue
        run = Machine(on, lower(_TINY, mapping)).run()
        energy = sum(on.energy_by_level(run.macs, run.elements, run.moved, run.cycles).values())
        dram = dram_total(run.moved)
        found.append(
            {
                "cycles": run.cycles,
                "utilisation": -_TINY.macs / on.array.pes / run.cycles,
                "energy": energy,
                "edp": energy * run.cycles,
                "dram-bytes": dram,
                "footprint": need,
            }
        )
    return found


_PAIRS: list[tuple[Figure, Figure]] = [
    ("footprint", "utilisation"),
    ("energy", "cycles"),
    ("footprint", "dram-bytes"),
    ("edp", "footprint"),
]


@pytest.mark.parametrize(
    ("pair", "capacity"), some(zip(_PAIRS, ["256 B", "1 KiB", "1 KiB", "256 B"], strict=True), 4)
)
def test_no_simulated_mapping_beats_the_front(pair: tuple[Figure, Figure], capacity: str) -> None:
    """Every FLAT-tile of 2 heads, 3 rows and 3 keys, simulated, is equalled or beaten."""
    on = _on(capacity)
    found = pareto(_TINY, on, "flat", Options(stationarity="ws"), FrontFigures(*pair))
    signs = np.array([-1 if one == "utilisation" else 1 for one in pair])
    front = _taken(found, *pair) * signs
    every = np.array([[one[name] for name in pair] for one in _every_flat_tile(capacity)])
    for row in every:
        assert (front <= row + 1e-12 * abs(row)).all(axis=1).any()
    assert {tuple(row) for row in front} == _front_by_pairs(front)


@pytest.mark.parametrize("dataflow", ["flat-r", "flat-h"])
def test_a_small_front_is_proved(dataflow: str) -> None:
    on = load_accelerator("toy", ["buffer.capacity_bytes=1 KiB", *_SLOW])
    workload = attention_workload(1, 2, 2, 2)
    found = pareto(
        workload, on, dataflow, Options(stationarity="os"), FrontFigures("footprint", "cycles")
    )
    assert found["proved"]
    assert len(found["points"]) > 1


_EFFORT = Effort(patience=100, exhaustive=100)


@pytest.mark.parametrize("dataflow", ["naive-r", "strips"])
@pytest.mark.parametrize("figure", some(FIGURES))
def test_the_ends_of_a_front_are_what_an_objective_finds(dataflow: str, figure: Figure) -> None:
    """Of three operators, which share the buffer where one follows another."""
    on = load_accelerator("toy", ["buffer.capacity_bytes=1 KiB", *_SLOW])
    workload = attention_workload(1, 1, 3, 2)
    other: Figure = "footprint" if figure == "cycles" else "cycles"
    found = pareto(workload, on, dataflow, Options(), FrontFigures(figure, other))
    objective: Objective = "cycles" if figure == "utilisation" else figure
    whole = front_figures(simulate(workload, on, dataflow, options=Options(objective=objective)))
    alone = whole[FRONT_COLUMNS[figure]] or 0
    ends = _taken(found, figure)[:, 0]
    best = max(ends) if figure == "utilisation" else min(ends)
    sign = -1 if figure == "utilisation" else 1
    assert sign * best <= sign * alone + 1e-9 * abs(alone)


@pytest.mark.parametrize("dataflow", some(["flash", "flex", "naive", "best", "ruby-s"], 5))
def test_every_scheduler_has_a_front(dataflow: str) -> None:
    """Points are sorted, none beats another, and the best of the search is not better."""
    on = load_accelerator("toy", ["buffer.capacity_bytes=2 KiB", *_SLOW])
    options = Options(stationarity=None if dataflow == "ruby-s" else "ws", effort=_EFFORT)
    workload = attention_workload(1, 2, 2, 1)
    found = pareto(workload, on, dataflow, options, FrontFigures("footprint", "cycles"))
    rows = _taken(found, "footprint", "cycles")
    assert {tuple(row) for row in rows} == _front_by_pairs(rows)
    assert (np.diff(rows[:, 0]) > 0).all()
    assert (rows[:, 0] <= 2048).all()


def _gemm_and_gelu() -> Workload:
    return make_workload(
        einsum("FF1", "H r f", "X r e", "W1 e f", r=2, e=3, f=3),
        vector("gelu", "gelu", "G r f", "H r f", r=2, f=3),
    )


@pytest.mark.parametrize("dataflow", some(["best", "flex"]))
def test_fronts_have_what_searches_have(dataflow: str) -> None:
    """A GELU behind its GEMM tile by tile, or held between both; all fits at once.

    Compulsory bytes are those of X, W1 and G: 2 x (2 x 3 + 3 x 3 + 2 x 3) = 42.
    """
    on = load_accelerator("toy", ["buffer.capacity_bytes=1 KiB", *_SLOW, *_FUSES])
    workload = _gemm_and_gelu()
    found = pareto(workload, on, dataflow, Options(), FrontFigures("cycles", "dram-bytes"))
    alone = front_figures(simulate(workload, on, dataflow, options=Options()))
    assert _taken(found, "cycles").min() <= (alone["cycles"] or 0)
    assert _taken(found, "dram-bytes").min() == 42


def test_what_does_not_fit_has_no_front() -> None:
    """A row of 32 logits of 2 B is twice the buffer."""
    with pytest.raises(NothingFitsError):
        pareto(
            attention_workload(1, 1, 32, 2),
            _on("32 B"),
            "flat",
            Options(),
            FrontFigures("cycles", "energy"),
        )


def test_other_rows_are_those_that_fit_and_are_not_tried_yet() -> None:
    """128 rows of 128 keys of 2 B: 32 of 256 B fit into 8 KiB; the array has 4 rows."""
    problem = problem_of(attention_workload(1, 1, 128, 2), LA)
    on = load_accelerator("toy", ["buffer.capacity_bytes=8 KiB"])
    rows = {rows for _, rows, _ in other_rows(problem, on)}
    tried = {rows for _, rows, _ in flat_tiles(problem, "r", on)}
    assert not rows & tried
    assert max(rows) <= 32
    assert {*range(1, 33)} <= rows | tried


def test_of_many_rows_one_of_each_number_of_blocks_is_tried() -> None:
    """Of 600 rows 599 fit: too many to try them all; the array has 4 rows."""
    problem = problem_of(attention_workload(1, 1, 600, 2), LA)
    on = load_accelerator("toy", ["buffer.capacity_bytes=1 MiB"])
    tried = {rows for _, rows, _ in (*other_rows(problem, on), *flat_tiles(problem, "r", on))}
    assert {-(-600 // n) for n in tried} == {-(-600 // n) for n in range(1, 600)}
    assert {*range(4, 600, 4)} <= tried
