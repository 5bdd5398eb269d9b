"""Random trees over random pods: exact, conserved, bounded, and the same values as on one chip."""

import pytest

from simaccel.analytic.prediction import predict
from simaccel.experiment.check_chips import check_chips
from simaccel.experiment.run import energy_pj
from simaccel.machine.machine import Machine
from simaccel.program.exchanges import lower_pod
from tests.agreement import run_exactly
from tests.drawn_chips import draw_pod
from tests.draws import seeds

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
