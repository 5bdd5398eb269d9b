"""The closed form and the machine, which know nothing of each other, agree."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.analytic.attention import softmax_work, staged_gemm_work
from simaccel.analytic.estimate import Estimate, attention_problem, estimate, gemm_problem
from simaccel.analytic.fused import fused_work
from simaccel.analytic.gemm import GemmTiles, gemm_work
from simaccel.analytic.row_blocks import FusedTiles
from simaccel.analytic.work import Ints, Work
from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.choices import (
    ORDERS,
    FusedGroup,
    FusedMapping,
    GemmGroup,
    SoftmaxGroup,
    SoftmaxMapping,
    StagedGroup,
)
from simaccel.program.program import reserved, reserved_bytes
from simaccel.workload import Dimensions, Workload, attention, gemm
from tests.machine.accelerators import accelerators
from tests.program.programs import LA, Case, case, gemm_mappings, gemm_shape

_WIDTHS = st.sampled_from([1, 2, 2, 3, 4])
_SIZES = st.one_of(st.integers(1, 9), st.sampled_from([1, 2, 3, 5, 7, 11, 13, 17, 19, 23]))
_SLOTS = st.integers(1, 3)
_STATIONARITIES = st.sampled_from(STATIONARITIES)
_REPEATS = st.sampled_from([1, 1, 1, 2, 3])


def _widths(tensors: str) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(tensors, _WIDTHS))


@st.composite
def _gemms(draw: st.DrawFn) -> Workload:
    sizes = {rank: draw(_SIZES) for rank in "mkn"}
    batch = draw(st.integers(1, 3))
    workload = gemm(**sizes, batch=batch, bytes_by_tensor=draw(_widths("ABC")))
    return replace(workload, repeat=draw(_REPEATS))


@st.composite
def _attentions(draw: st.DrawFn) -> Workload:
    heads, size = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 4, 5, 8, 11]))
    workload = attention(
        Dimensions(hidden=heads * size, heads=heads, head_size=size, ff_size=1),
        batch=draw(st.integers(1, 3)),
        seq_len=draw(_SIZES),
        scope="la",
        bytes_by_tensor=draw(_widths("QKSPVZ")),
    )
    return replace(workload, repeat=draw(_REPEATS))


@st.composite
def _gemm_cases(draw: st.DrawFn) -> Case:
    workload = draw(_gemms())
    _, m, k, n = gemm_shape(workload)
    return case(workload, GemmGroup(operator="gemm", mapping=draw(gemm_mappings(m, k, n))))


@st.composite
def _softmaxes(draw: st.DrawFn, rows: int) -> SoftmaxMapping:
    return SoftmaxMapping(
        rows=draw(st.integers(1, rows)), cols=draw(st.integers(1, rows)), slots=draw(_SLOTS)
    )


@st.composite
def _separate_cases(draw: st.DrawFn) -> Case:
    workload = draw(_attentions())
    _, _, rows, depth = workload.shapes["Q"]
    return case(
        workload,
        GemmGroup(operator="L", mapping=draw(gemm_mappings(rows, depth, rows))),
        SoftmaxGroup(operator="softmax", mapping=draw(_softmaxes(rows))),
        GemmGroup(operator="A", mapping=draw(gemm_mappings(rows, rows, depth))),
    )


@st.composite
def _staged_cases(draw: st.DrawFn) -> Case:
    workload = draw(_attentions())
    batch, heads, rows, depth = workload.shapes["Q"]
    group = StagedGroup(
        operators=LA,
        logit=draw(gemm_mappings(rows, depth, rows)),
        softmax=draw(_softmaxes(rows)),
        attend=draw(gemm_mappings(rows, rows, depth)),
        resident_rows=draw(st.integers(0, batch * heads * rows)),
    )
    return case(workload, group)


@st.composite
def _fused_cases(draw: st.DrawFn) -> Case:
    workload = draw(_attentions())
    batch, heads, rows, _ = workload.shapes["Q"]
    pipelined = draw(st.booleans())
    least = 2 if pipelined else 1
    mapping = FusedMapping(
        heads=draw(st.integers(1, batch * heads)),
        rows=draw(st.integers(1, rows)),
        keys=draw(st.integers(1, rows)),
        online=draw(st.booleans()),
        pipelined=pipelined,
        logit_stationarity=draw(_STATIONARITIES),
        attend_stationarity=draw(_STATIONARITIES),
        in_slots=draw(st.integers(least, 3)),
        out_slots=draw(st.integers(least, 3)),
        tile_slots=draw(st.integers(least, 3)),
    )
    return case(workload, FusedGroup(operators=LA, mapping=mapping))


_CASES = _gemm_cases() | _separate_cases() | _staged_cases() | _fused_cases()


@settings(max_examples=300)
@given(_CASES, accelerators())
def test_machine_and_closed_form_agree(drawn: Case, on: Accelerator) -> None:
    """MACs, bytes, SFU elements, buffer and the work of every resource: exactly."""
    run = Machine(on, drawn.program).run()
    predicted = estimate(drawn.workload, drawn.mapping, on)
    assert predicted.macs == run.macs == drawn.workload.macs
    assert predicted.moved == run.moved
    assert sum(one.elements for one in predicted.operators) == run.elements
    assert predicted.buffer_bytes == reserved_bytes(drawn.program) >= run.peak_buffer_bytes
    assert predicted.resource_bound_cycles <= min(run.cycles, predicted.cycles)
    _require_same_operators(drawn, predicted, run)
    _require_same_service(predicted, run)


def _require_same_operators(drawn: Case, predicted: Estimate, run: Run) -> None:
    uses = reserved(drawn.program)
    for one, done in zip(predicted.operators, run.operators, strict=True):
        assert one.name == done.name
        assert (one.macs, one.elements, one.moved) == (done.macs, done.elements, done.moved)
        assert one.buffer_bytes == sum(b * slots for b, slots in uses[one.name].values())
        assert one.resource_bound_cycles == max(one.resources.values())
        assert one.resource_bound_cycles <= min(done.cycles, one.cycles)
        assert one.resources["array"] == done.engines["array"].busy
        assert one.resources["sfu"] == done.engines["sfu"].busy


def _require_same_service(predicted: Estimate, run: Run) -> None:
    """A channel serves exactly the cycles that the closed form counts; channel 0 the most."""
    total = {
        name: sum(one.resources[name] for one in predicted.operators)
        for name in ("dram", "buffer_read", "buffer_write")
    }
    channels = [n for name, n in run.served_cycles.items() if name.startswith("dram")]
    assert run.served_cycles["dram0"] == max(channels) == total["dram"]
    assert run.served_cycles["buffer_read"] == total["buffer_read"]
    assert run.served_cycles["buffer_write"] == total["buffer_write"]


# -- many candidates in one call ------------------------------------------------------------


def _picked(work: Work, index: int, count: int) -> dict[str, Any]:
    """Give all figures of one candidate as plain numbers."""

    def at(value: Ints) -> float:
        return float(np.broadcast_to(value, count)[index])

    figures: dict[str, Any] = {
        f.name: at(getattr(work, f.name)) for f in fields(Work) if f.name not in ("moved", "tiles")
    }
    figures |= {f"moved {level}": at(n) for level, n in work.moved.items() if at(n)}
    figures |= {
        f"tile {name}": (at(size), at(slots))
        for name, (size, slots) in work.tiles.items()
        if at(size)
    }
    made = {"bound": work.bound(), "cycles": work.cycles(), "buffer": work.buffer_bytes}
    return figures | {name: at(value) for name, value in made.items()}


def _require_same_one_by_one(evaluate: Callable[..., Work], columns: dict[str, list[int]]) -> None:
    count = len(next(iter(columns.values())))
    together = evaluate(**{name: np.array(column) for name, column in columns.items()})
    for index in range(count):
        alone = evaluate(**{name: np.array([c[index]]) for name, c in columns.items()})
        assert _picked(together, index, count) == _picked(alone, 0, 1)


def _columns(draw: st.DrawFn, **extents: int) -> dict[str, list[int]]:
    """Draw a few candidates; the first is the whole tensor, which often is a case of its own."""
    count = draw(st.integers(0, 5))
    return {
        name: [extent, *(draw(st.integers(1, extent)) for _ in range(count))]
        for name, extent in extents.items()
    }


@settings(max_examples=80)
@given(_gemms(), accelerators(), st.data())
def test_gemm_candidates_are_independent(workload: Workload, on: Accelerator, data: Any) -> None:  # noqa: ANN401 - hypothesis names no type
    order, stationarity = data.draw(st.sampled_from(ORDERS)), data.draw(_STATIONARITIES)
    slots = data.draw(st.tuples(_SLOTS, _SLOTS, _SLOTS))
    problem = gemm_problem(workload, "gemm")

    def evaluate(m: Ints, k: Ints, n: Ints) -> Work:
        tiles = GemmTiles(m=m, k=k, n=n, order=order, stationarity=stationarity, slots=slots)
        return gemm_work(problem, tiles, on)

    columns = _columns(data.draw, m=problem.m, k=problem.k, n=problem.n)
    _require_same_one_by_one(evaluate, columns)


@settings(max_examples=40)
@given(_attentions(), accelerators(), st.data())
def test_softmax_candidates_are_independent(workload: Workload, on: Accelerator, data: Any) -> None:  # noqa: ANN401 - hypothesis names no type
    problem, slots = attention_problem(workload, LA), data.draw(_SLOTS)

    def evaluate(rows: Ints, cols: Ints) -> Work:
        return softmax_work(problem, rows, cols, slots, on)

    _require_same_one_by_one(evaluate, _columns(data.draw, rows=problem.q, cols=problem.c))


@settings(max_examples=40)
@given(_attentions(), accelerators(), st.data())
def test_staged_candidates_are_independent(workload: Workload, on: Accelerator, data: Any) -> None:  # noqa: ANN401 - hypothesis names no type
    problem = attention_problem(workload, LA)
    which = data.draw(st.sampled_from(["logit", "attend"]))
    order, stationarity = data.draw(st.sampled_from(ORDERS)), data.draw(_STATIONARITIES)
    resident = data.draw(st.integers(0, problem.g * problem.q))
    shape = problem.logit() if which == "logit" else problem.attend()

    def evaluate(m: Ints, k: Ints, n: Ints) -> Work:
        tiles = GemmTiles(m=m, k=k, n=n, order=order, stationarity=stationarity)
        return staged_gemm_work(problem, which, tiles, resident, on)

    _require_same_one_by_one(evaluate, _columns(data.draw, m=shape.m, k=shape.k, n=shape.n))


@settings(max_examples=60)
@given(_attentions(), accelerators(), st.data())
def test_fused_candidates_are_independent(workload: Workload, on: Accelerator, data: Any) -> None:  # noqa: ANN401 - hypothesis names no type
    problem = attention_problem(workload, LA)
    online, pipelined = data.draw(st.booleans()), data.draw(st.booleans())
    pair = data.draw(st.tuples(_STATIONARITIES, _STATIONARITIES))
    slots = (2, 2, 2) if pipelined else data.draw(st.tuples(_SLOTS, _SLOTS, _SLOTS))

    def evaluate(heads: Ints, rows: Ints, keys: Ints) -> Work:
        tiles = FusedTiles(
            heads=heads,
            rows=rows,
            keys=keys,
            online=online,
            pipelined=pipelined,
            stationarity=pair,
            slots=slots,
        )
        return fused_work(problem, tiles, on)

    columns = _columns(data.draw, heads=problem.g, rows=problem.q, keys=problem.c)
    _require_same_one_by_one(evaluate, columns)


@settings(max_examples=60)
@given(_CASES, accelerators())
def test_figures_are_never_negative(drawn: Case, on: Accelerator) -> None:
    predicted = estimate(drawn.workload, drawn.mapping, on)
    for one in predicted.operators:
        assert min(one.cycles, one.macs, one.elements, one.buffer_bytes) >= 0
        assert min([*one.moved.values(), *one.resources.values()], default=0) >= 0
        assert min(one.energy_pj.values()) >= 0
    assert predicted.macs > 0
    assert predicted.cycles > 0
