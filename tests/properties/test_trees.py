"""Trees by example and drawn, on one chip and on pods: machine, closed form and numpy agree."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simaccel.analytic.prediction import predict
from simaccel.diagnosis.check_chips import check_chips
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.program.exchanges import lower_pod
from simaccel.study.experiment import energy_pj
from tests.agreement import assert_counts, assert_exact, run_exactly
from tests.drawn_chips import draw_pod
from tests.drawn_machines import example_machine
from tests.drawn_trees import draw_case, draw_held, over_cores
from tests.draws import DRAWS, seeds
from tests.program.tree_cases import CASES
from tests.trees import assert_computes


@pytest.mark.parametrize("name", CASES)
def test_an_example_moves_what_the_closed_form_counts(name: str) -> None:
    of, one = CASES[name]
    on = example_machine(one)
    assert faults(of, one, on) == []
    assert_exact(of, one, on, assert_counts(of, one, on))


def _check(seed: int, *, spatial: bool) -> None:
    case = over_cores(seed, draw_case(seed, spatial=spatial))
    assert_computes(case.of, case.mapping)
    run = assert_counts(case.of, case.mapping, case.on)
    assert_exact(case.of, case.mapping, case.on, run)


@given(st.integers(0, 2**32))
@example(22082591532254183425)  # a core's last piece is as small as the tile of an inner loop
@settings(max_examples=6 * DRAWS)
def test_a_random_tree_on_a_systolic_array(seed: int) -> None:
    _check(seed, spatial=False)


@given(st.integers(0, 2**32))
@settings(max_examples=6 * DRAWS)
def test_a_random_tree_on_a_spatial_array(seed: int) -> None:
    _check(seed, spatial=True)


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=4 * DRAWS)
def test_tensors_that_stay_from_group_to_group(seed: int, spatial: bool) -> None:  # noqa: FBT001
    """Values, and bytes by tensor and level."""
    case = draw_held(seed, spatial=spatial)
    assert_computes(case.of, case.mapping)
    assert_counts(case.of, case.mapping, case.on)


_CHUNKS = 2
_SEEDS = 10


@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_counts_bound_fast_forward_and_values_on_chips(chunk: int) -> None:
    """Of chips of one to three cores; no run is below its bound, or differs with fast-forward."""
    exchanges = 0
    for seed in seeds(_SEEDS, chunk, _CHUNKS):
        case = draw_pod(seed)
        if case is None:
            continue
        on, pod = case.on, case.pod
        program = lower_pod(pod, on)
        run = run_exactly(on, program)
        predicted = predict(pod.workload, pod.mapping, on, pod.exchanges, pod.parts)
        assert predicted.bound_cycles <= run.cycles, seed
        assert predicted.moved == {key: n for key, n in run.moved.items() if n}, seed
        busy = {name: engine.busy for name, engine in run.engines.items()}
        assert predicted.resources.get("array", 0) == busy["array"], seed
        for name in ("link", "remote.link"):
            assert predicted.resources.get(name, 0) == busy.get(name, 0), seed
        if on.pod.slices == 1:  # what a network takes is unknown
            assert predicted.energy_pj == pytest.approx(energy_pj(run, on)), seed
        assert (predicted.energy_pj.get("link", 0) > 0) == bool(pod.exchanges), seed
        check_chips(case.of, pod)
        exchanges += len(pod.exchanges)
    assert exchanges > 0


@pytest.mark.parametrize("seed", [2, 75, 129])
def test_what_the_draw_found(seed: int) -> None:
    """All groups beside core 0; parts that the chips of an all-to-all don't have together."""
    case = draw_pod(seed)
    assert case is not None
    predict(case.pod.workload, case.pod.mapping, case.on, case.pod.exchanges, case.pod.parts)
    check_chips(case.of, case.pod)


def test_a_read_of_a_part_is_written_to_the_buffers_of_all_cores_that_it_serves() -> None:
    """Half of U, 8 rows of 6 numbers of 2 bytes, is read once and goes to two cores."""
    case = draw_pod(22034213020631344133)
    assert case is not None
    pod = case.pod
    assert pod.parts["U.part"] == "U"
    predicted = predict(pod.workload, pod.mapping, case.on, pod.exchanges, pod.parts)
    assert predicted.moved["dram_read", "U"] == 8 * 6 * 2
    assert predicted.moved["buffer_write", "U"] == 2 * 8 * 6 * 2
    assert Machine(case.on, lower_pod(pod, case.on)).run().moved["buffer_write", "U"] == 192
