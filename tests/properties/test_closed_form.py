"""Counts and bound of the tree, and the machine, which know nothing of each other, agree."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.analytic.evaluation import FamilyTotals, evaluate
from simaccel.analytic.family import Ints
from simaccel.analytic.prediction import Prediction, predict
from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.fit import reserved_slots
from simaccel.program.overlap import most_reserved_bytes
from simaccel.workload import ModelDimensions, Workload, attention, gemm
from tests.draws import DRAWS
from tests.machine.accelerators import accelerators
from tests.program.programs import Case, cases
from tests.properties.families import Drawn, flat_families, gemm_families, packed, packs

_WIDTHS = st.sampled_from([1, 2, 2, 3, 4])
_SIZES = st.one_of(st.integers(1, 9), st.sampled_from([1, 2, 3, 5, 7, 11, 13, 17, 19, 23]))
_REPEATS = st.sampled_from([1, 1, 1, 2, 3])


def _widths(tensors: str) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({}, optional=dict.fromkeys(tensors, _WIDTHS))


@st.composite
def _gemms(draw: st.DrawFn) -> Workload:
    sizes = {rank: draw(_SIZES) for rank in "mkn"}
    batch = draw(st.integers(1, 3))
    workload = gemm(**sizes, batch=batch, bytes_by_tensor=draw(_widths("ABC")))
    return replace(packed(workload, draw(packs("ABC"))), repeat=draw(_REPEATS))


@st.composite
def _attentions(draw: st.DrawFn) -> Workload:
    heads, size = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 3, 4, 5, 8, 11]))
    workload = attention(
        ModelDimensions(hidden=heads * size, heads=heads, head_size=size, ff_size=1),
        batch=draw(st.integers(1, 3)),
        seq_len=draw(_SIZES),
        scope="la",
        bytes_by_tensor=draw(_widths("QKSPVZ")),
    )
    return replace(packed(workload, draw(packs("QKSPVZ"))), repeat=draw(_REPEATS))


_CASES = cases(_gemms(), _attentions())


@settings(max_examples=7 * DRAWS)
@given(_CASES, accelerators())
def test_machine_and_prediction_agree(drawn: Case, on: Accelerator) -> None:
    """MACs, bytes, SFU elements, buffer and the work of every resource: exactly."""
    run = Machine(on, drawn.program).run()
    predicted = predict(drawn.workload, drawn.mapping, on)
    assert predicted.macs == run.macs == drawn.workload.macs
    assert predicted.moved == run.moved
    assert sum(one.elements for one in predicted.groups) == run.elements
    reserved_bytes = most_reserved_bytes(drawn.program, on)
    assert reserved_bytes >= max(predicted.buffer_bytes, run.peak_buffer_bytes)
    assert 0 < predicted.bound_cycles <= run.cycles
    _require_same_operators(drawn, predicted, run, overlap=bool(on.compiler.overlap))
    _require_service_within(predicted, run, on.every_backing)


def _require_same_operators(drawn: Case, predicted: Prediction, run: Run, *, overlap: bool) -> None:
    uses = reserved_slots(drawn.program)
    for one, done in zip(predicted.groups, run.operators, strict=True):
        assert one.name == done.name
        figures = (one.bound_cycles, one.buffer_bytes, *one.resources.values())
        assert min(*figures, *one.energy_pj.values()) >= 0
        assert (one.macs, one.elements, one.moved) == (done.macs, done.elements, done.moved)
        assert one.buffer_bytes == sum(b * slots for b, slots in uses[one.name].values())
        assert one.resource_bound_cycles == max(one.resources.values())
        if not overlap:
            assert one.resource_bound_cycles <= one.bound_cycles <= done.cycles
            assert one.resources["array"] == done.engines["array"].busy
            assert one.resources["sfu"] == done.engines["sfu"].busy
    for unit in ("array", "sfu"):
        work = sum(one.resources[unit] for one in predicted.groups)
        assert work == sum(done.engines[unit].busy for done in run.operators)


def _require_service_within(predicted: Prediction, run: Run, memories: Iterable[str]) -> None:
    """A channel serves at least the cycles of all bytes together; channel 0 the most."""
    total = {
        name: sum(one.resources[name] for one in predicted.groups)
        for name in (*memories, "buffer_read", "buffer_write")
    }
    for memory in memories:
        channels = [n for name, n in run.served_cycles.items() if name.startswith(memory)]
        assert run.served_cycles[f"{memory}0"] == max(channels) >= total[memory]
    assert run.served_cycles["buffer_read"] >= total["buffer_read"]
    assert run.served_cycles["buffer_write"] >= total["buffer_write"]


# -- many candidates in one call ------------------------------------------------------------


def _figures(totals: FamilyTotals, index: int, count: int) -> dict[object, int]:
    """Give all counts of one candidate as plain numbers."""
    counts = totals.counts
    columns: dict[object, Ints] = {
        "macs": counts.macs,
        "elements": counts.elements,
        "bound": totals.resource_bound(),
        "buffer": totals.buffer_bytes(),
        **{("busy", name): value for name, value in counts.busy.items()},
        **{("moved", level): value for level, value in counts.moved.items()},
    }
    for name, (size, slots) in counts.tiles.items():
        columns["tile", name] = size * slots
    found = {name: int(np.broadcast_to(one, count)[index]) for name, one in columns.items()}
    return {name: value for name, value in found.items() if value}


@settings(max_examples=7 * DRAWS)
@given(gemm_families() | flat_families(), accelerators())
def test_counts_of_candidates_are_those_of_each_alone(drawn: Drawn, on: Accelerator) -> None:
    """Of different orders, sizes and slots; also of the tree that a candidate is.

    What else is counted beside a candidate has no part in its figures and its bound.
    """
    together = evaluate(drawn.family, on)
    bounds = np.broadcast_to(together.bound(), drawn.count)
    for number in range(drawn.count):
        alone = evaluate(drawn.alone(number), on)
        assert _figures(together, number, drawn.count) == _figures(alone, 0, 1)
        assert bounds[number] == int(alone.bound())
        (tree,) = predict(drawn.workload, drawn.mapping(number), on).groups
        assert tree.moved == {level: int(n) for level, n in alone.counts.moved.items() if int(n)}
        assert tree.macs == drawn.workload.macs
        assert tree.buffer_bytes == int(alone.buffer_bytes())
