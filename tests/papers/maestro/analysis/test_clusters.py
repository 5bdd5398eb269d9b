"""Trees on PEs as cluster levels: MAESTRO's own figures, and the cycles of the machine's PEs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Group
from simaccel.papers.maestro.analysis.analysis import analyse
from simaccel.papers.maestro.analysis.hardware import hardware_of
from simaccel.papers.maestro.analysis.runtime import OperatorTime, operator_times
from simaccel.papers.maestro.dataflows.reading import parse_directives
from simaccel.papers.maestro.dataflows.translating import directed_mapping
from simaccel.program.lowering import lower
from simaccel.workload import Vector, Workload
from simaccel.workload.layers import layers_workload
from tests.drawn_trees import Drawn, draw_case
from tests.draws import DRAWS
from tests.trees import einsum, mapping, workload

HW = load_accelerator("maestro_256")
ROWS, COLUMNS = "Map(Sz(R),1) Y; ", "Map(Sz(S),1) X; "
ONE_LEVEL = (
    f"TemporalMap({{m}},{{m}}) K; Temporal{ROWS}Temporal{COLUMNS}SpatialMap({{c}},{{c}}) C;",
    f"SpatialMap({{m}},{{m}}) K; TemporalMap({{c}},{{c}}) C; Temporal{ROWS}Temporal{COLUMNS}",
    f"TemporalMap({{c}},{{c}}) C; TemporalMap({{m}},{{m}}) K; Temporal{ROWS}Spatial{COLUMNS}",
    f"Temporal{ROWS}SpatialMap({{m}},{{m}}) K; Temporal{COLUMNS}TemporalMap({{c}},{{c}}) C;",
)


@settings(max_examples=9 * DRAWS, deadline=None)
@given(st.sampled_from(ONE_LEVEL), st.data())
def test_a_level_of_directives_and_its_tree_take_as_long(text: str, data: st.DataObject) -> None:
    """MAESTRO's analysis of the directives: the same steps, NoC and first fill."""
    reach = data.draw(st.integers(1, 3), label="filter")
    stride = data.draw(st.integers(1, reach), label="stride")
    k, c = (data.draw(st.integers(1, 300), label=dim) for dim in "KC")
    y, x = (reach + data.draw(st.integers(0, 20), label=dim) for dim in "YX")
    m, n = (data.draw(st.integers(1, 4), label=dim) for dim in "mc")
    layers = parse_directives(
        f"Network n {{ Layer l {{ Type: CONV Stride {{ X: {stride}, Y: {stride} }} "
        f"Dimensions {{ K: {k}, C: {c}, R: {reach}, S: {reach}, Y: {y}, X: {x} }} "
        f"Dataflow {{ {text.format(m=m, c=n)} }} }} }}"
    ).layers
    workload = layers_workload("n", {one.name: one.layer.shape() for one in layers})
    (group,) = directed_mapping(layers, workload, HW).groups
    (found,) = operator_times(space_of(workload, group), group, HW)
    (theirs,) = analyse(layers, [hardware_of(HW)])
    assert found.cycles == theirs.figures()["runtime_cycles"]


def _times(of: Workload, group: Group, on: object = HW) -> tuple[OperatorTime, ...]:
    return operator_times(space_of(of, group), group, on)  # type: ignore[arg-type]


def _ideal(case: Drawn) -> dict[str, int] | None:
    """Return what directives say that each unit works without a NoC; None where one is silent."""
    found = {"array": 0, "sfu": 0}
    for group in case.mapping.groups:
        for one in _times(case.of, group, case.on):
            if one.silent:
                assert one.silent.startswith(("3 inputs", "no product of two factors"))
                return None
            unit = "sfu" if isinstance(case.of.operator(one.operator), Vector) else "array"
            alone = (one.cycles or 0) - (one.transfers or 0)
            found[unit] += case.of.times(group.operators[0]) * alone
    return found


@settings(max_examples=10 * DRAWS, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_without_a_noc_trees_take_the_cycles_of_the_machine(seed: int, spatial: bool) -> None:  # noqa: FBT001
    """PEs that never wait, and vector units whose passes have no latency, to the cycle."""
    case = draw_case(seed, spatial=spatial)
    ideal = None if case is None else _ideal(case)
    if case is None or ideal is None:
        return
    run = Machine(case.on, lower(case.of, case.mapping)).run()
    busy = {unit: sum(one.engines[unit].busy for one in run.operators) for unit in ideal}
    if spatial:
        assert ideal["array"] == busy["array"]
    if not case.on.sfu.latency_cycles:
        assert ideal["sfu"] == busy["sfu"]


def _convolution(window: str) -> tuple[Group, Workload]:
    of = workload(einsum("one", "O p", f"I {window}", "W r", p=9, r=5))
    (group,) = mapping(
        of,
        """
        group one
          loop p 1
          keep I pe, W pe, O pe
          loop r 1
          do one mac
        """,
    ).groups
    return group, of


def test_windows_with_dilation_have_no_word() -> None:
    group, of = _convolution("2*p+2*r")
    (found,) = _times(of, group)
    assert found.silent == "I slides over p+r with dilation, which the notation lacks"
    assert found.cycles is None


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_of_a_window_comes_what_is_new(stride: int) -> None:
    """9 rows one by one, 5 taps, an element a cycle: first all, then what sets say, a sum a row."""
    group, of = _convolution(f"{stride}*p+r")
    on = load_accelerator("maestro_256", ["noc.distribution.link_bytes_per_cycle=2"])
    (found,) = _times(of, group, on)
    tiles = [{stride * p + r for r in range(5)} for p in range(9)]
    new = [len(now - before) for before, now in pairwise(tiles)]
    late = on.lead_latency_cycles - 1
    first = (5 + 5 + late) + 5 + (1 + late)
    assert found.cycles == first + sum(max(5, n + late) for n in new)


def test_tensors_that_enter_pes_at_several_depths_are_told() -> None:
    """Clusters have one depth, so that the levels are only close to such a tree."""
    of = workload(einsum("E", "C m n", "A m k", "B k n", m=4, k=6, n=5))
    for inner, is_told in (("", False), ("loop k 2\n    ", True)):
        keeps = f"keep A pe\n    {inner}keep B pe, C pe"
        tree = f"group E\n    spread m 1 rows\n    {keeps}\n    do E mac\n"
        (one,) = _times(of, mapping(of, tree).groups[0])
        assert one.written.startswith("as if PEs took all tensors") == is_told
