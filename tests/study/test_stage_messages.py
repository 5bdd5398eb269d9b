"""Messages between stages of a pipeline on the machine, beside a stage's work; sums by hand."""

import pytest

from simaccel.hardware import Accelerator
from simaccel.hardware.collectives import LinkAxis
from simaccel.hardware.cores import PIPELINE
from simaccel.hardware.load import with_values
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.program.text import parse_program, program_text
from simaccel.report.generation import pipeline_json
from simaccel.report.pods import pod_json, pod_lines
from simaccel.schedulers import Options
from simaccel.study.experiment import ExperimentResult, simulate
from simaccel.study.pipeline import PipelineRun, pipeline_row
from simaccel.workload import Workload
from simaccel.workload.language.build import transformer
from tests.machine.accelerators import accelerator
from tests.mapping.chips.feed_forward import feed_forward, spread
from tests.small_pods import SMALL, run_stages, small_pod

ALL_REDUCE = 2 * 3 * 1024 // 2 // 2
"""Link cycles: 64 x 32 sums of 2 bytes in 4 pieces, 3 leave twice, half each way, 2 bytes each."""


def _pod(**dram: object) -> Accelerator:
    """Return four chips in a ring, 2 bytes a cycle and 5 cycles from one another."""
    links = {"bytes_per_second": "2 GB/s", "hop_cycles": 5, "pj_per_bit": 1}
    found = accelerator(dram=dram).model_dump()
    return Accelerator.model_validate(found | {"chips": 4, "links": links})


def _message(sent: int, received: int, *axes: LinkAxis) -> Exchange:
    """Return a message of so many bytes to the next stage, and from the one before."""
    return Exchange(
        kind="send_receive",
        tensor="X",
        source="N.before",
        target="X.next",
        elements=(sent, received),
        bits=8,
        digits=(),
        axes=axes or (LinkAxis(1 if sent else 0),),
        after="",
        source_layout=ChipLayout(()),
        target_layout=ChipLayout(()),
        cores=range(PIPELINE, PIPELINE + 1),
    )


def _run(pod: Accelerator, *beside: Exchange, fast_forward: bool = True) -> ExperimentResult:
    ff = feed_forward()
    columns = {"FF1": "f 32", "act": "f 32", "FF2": "f 32"}
    mapping = spread(ff, **columns)
    return simulate(ff, pod, mapping, beside=beside, fast_forward=fast_forward)


def _cycles(result: ExperimentResult) -> dict[str, int]:
    return {one.name: one.cycles for one in result.run.operators}


@pytest.mark.parametrize(
    ("sent", "received", "name"),
    [(64, 64, "N.before.send_receive"), (64, 0, "N.before.send"), (0, 64, "X.next.receive")],
)
def test_a_message_that_is_through_before_the_collective_holds_nothing_up(
    sent: int, received: int, name: str
) -> None:
    alone, result = _run(_pod()), _run(_pod(), _message(sent, received))
    assert result.run.cycles == alone.run.cycles
    assert _cycles(result) == {**_cycles(alone), name: 64 // 2}
    assert parse_program(program_text(result.program)) == result.program
    assert result.run.served_cycles["links0"] == ALL_REDUCE + 64 // 2  # both ways at once
    more = {
        key: n - alone.run.moved.get(key, 0)
        for key, n in result.run.moved.items()
        if n != alone.run.moved.get(key, 0)
    }
    sides = {("dram_read", "N.before"): sent, ("dram_write", "X.next"): received}
    sides |= {("buffer_write", "N.before"): sent, ("buffer_read", "X.next"): received}
    sides |= {("buffer_read", "N.before"): sent, ("buffer_write", "X.next"): received}
    sides |= {("link_write", "N.before"): sent, ("link_read", "X.next"): received}
    assert more == {key: n for key, n in sides.items() if n}
    (memory,), (without,) = result.memories, alone.memories
    assert memory.by_part["activations"] - without.by_part["activations"] == sent + received


def test_a_message_and_a_collective_on_one_link_take_turns() -> None:
    """The message sends all the time, so a collective's cycles on the link are there twice."""
    alone, result = _run(_pod()), _run(_pod(), _message(100_000, 100_000))
    held = _cycles(result)["Y.all_reduce"] - _cycles(alone)["Y.all_reduce"]
    chunks, turn = 4, 4
    assert ALL_REDUCE - chunks * turn <= held <= ALL_REDUCE
    assert result.run.cycles == 50_000 + ALL_REDUCE  # the link is never idle
    assert result.prediction.bound_cycles == 50_000 + ALL_REDUCE
    assert result.run.engines["pipeline.link"].busy == 50_000 + ALL_REDUCE
    assert result.run.engines["link"].busy == ALL_REDUCE + held


def test_a_message_through_another_dimension_holds_no_collective_up() -> None:
    alone, result = _run(_pod()), _run(_pod(), _message(100_000, 100_000, LinkAxis(2, "line", 1)))
    assert _cycles(result) == {**_cycles(alone), "N.before.send_receive": 50_000}
    assert result.run.served_cycles["links1"] == 50_000
    assert result.run.moved["link_write", "N.before"] == 2 * 100_000  # over two links


def test_memory_channels_are_shared_with_messages() -> None:
    """At 4 bytes a cycle: what all operators and both sides of the message move."""
    slow = _pod(bandwidth_bytes_per_second="4 GB/s")
    result = _run(slow, _message(40_000, 40_000))
    moved = {"x": 64 * 32, "w": 2 * 32 * 32, "h": 64 * 32, "u": 64 * 32, "n": 64 * 32}
    # X, W1, H twice, U twice, W2, Y, its parts read, its sum written and read, g, N
    elements = moved["x"] + moved["w"] + 2 * moved["h"] + 2 * moved["u"] + 4 * 64 * 32 + 32
    n_bytes = 2 * (elements + moved["n"]) + 80_000
    assert result.run.served_cycles["dram0"] == n_bytes // 4
    (term,) = result.prediction.bound_terms.items()
    assert term[0] == "dram"
    assert n_bytes // 4 - 6 <= term[1] <= n_bytes // 4 <= result.run.cycles  # one of each row


@pytest.mark.parametrize("bandwidth", ["unlimited", "3 GB/s"])
@pytest.mark.parametrize("size", [64, 30_000])
def test_fast_forward_changes_nothing(size: int, bandwidth: str) -> None:
    pod, message = _pod(bandwidth_bytes_per_second=bandwidth), _message(size, size)
    fast, slow = (_run(pod, message, fast_forward=on).run for on in (True, False))
    assert (fast.cycles, fast.engines, fast.operators) == (
        slow.cycles,
        slow.engines,
        slow.operators,
    )


def test_lines_on_all_chips_name_messages() -> None:
    result = _run(_pod(), _message(64, 64))
    assert "of which this is one: 1 collective and 1 message" in next(pod_lines(result))
    listed = pod_json(result)["chips"]["collectives"]
    assert [(one["name"], one["times"]) for one in listed] == [
        ("Y.all_reduce", 1),
        ("N.before.send_receive", 1),
    ]


def _build(phase: str, batch: int) -> Workload:
    return transformer(SMALL, phase=phase, prompt=8, batch=batch, scope="model")


def _link_energy(run: PipelineRun) -> float:
    energy: float = pipeline_row(run)["energy_pj"]["link"]
    return run.accelerator.pod.count * energy


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_stages_hand_on_what_their_layers_make(phase: str) -> None:
    """Four chips, a stage each; 8 sequences in 4 micro-batches of 2 x 8 x 32 (or 2 x 1 x 32)."""
    run = run_stages(_build(phase, 8), small_pod(4), "strips", stages=4)
    n_bytes = 2 * (8 if phase == "prefill" else 1) * 32 * 2
    names = [[one.name for one in stage.result.run.operators][-1] for stage in run.stages]
    assert names == ["Xout.before.send", "Xout.before.send_receive", "X.next.receive"]
    moved = [
        {key: n for key, n in stage.result.run.moved.items() if key[1] in ("Xout.before", "X.next")}
        for stage in run.stages
        for _ in range(stage.count)
    ]
    for level, name in (("dram_read", "Xout.before"), ("link_write", "Xout.before")):
        assert [one.get((level, name), 0) for one in moved] == [n_bytes] * 3 + [0]
    for level, name in (("dram_write", "X.next"), ("link_read", "X.next")):
        assert [one.get((level, name), 0) for one in moved] == [0] + [n_bytes] * 3
    assert _link_energy(run) == pytest.approx(4 * 3 * n_bytes * 8)  # 1 pJ a bit, once
    listed = [stage["operators"][-1] for stage in pipeline_json(run)["stages"]]
    assert [one["name"] for one in listed] == names
    assert "dram_bandwidth" in listed[0]["engines"]["pipeline.link"]["stalls"]  # of its load


def test_a_stage_alone_has_no_messages() -> None:
    run = run_stages(_build("decode", 4), small_pod(1), "strips", stages=1)
    (stage,) = run.stages
    assert stage.result.pod.exchanges == ()
    plain = simulate(stage.result.workload, small_pod(1), "strips").run
    assert plain == stage.result.run


def test_energies_of_collectives_and_messages_are_added_once() -> None:
    """Two stages of two chips: two all-reduces a layer of 2 x 32 bf16, sent once by each of two."""
    switch = small_pod(4, "topology=switch")
    options = Options(tensor_parallel=2)
    run = run_stages(
        _build("decode", 4), switch, "strips", stages=2, micro_batches=2, options=options
    )
    n_bytes = 2 * 32 * 2
    for stage in run.stages:
        served = stage.result.run.served_cycles["links0"]
        # pieces of half of it, of which one leaves twice; and the message in or out
        assert served == 4 * -(-n_bytes // 10) + -(-n_bytes // 10)
    collectives = 2 * 2 * 2 * 4 * n_bytes  # micro-batches x stages x chips x all-reduces
    assert _link_energy(run) == pytest.approx(8 * (collectives + 2 * 2 * n_bytes))


@pytest.mark.parametrize(
    ("topology", "chips", "own", "of_messages"),
    [
        (("topology=torus", "dimensions=2"), "2x4", "links1", "links0"),
        (("topology=all_to_all",), "8", "links0", "links1"),
    ],
)
def test_messages_of_a_torus_or_all_to_all_have_links_of_their_own(
    topology: tuple[str, ...], chips: str, own: str, of_messages: str
) -> None:
    """Two stages of four chips; 4 sequences x 32 bf16, of which each chip sends all."""
    pod = with_values(small_pod(8, *topology), {"chips": chips}, "test")
    options = Options(tensor_parallel=4)
    run = run_stages(_build("decode", 8), pod, "strips", stages=2, options=options)
    for stage in run.stages:
        served = stage.result.run.served_cycles
        assert served[of_messages] == -(-4 * 32 * 2 // 10)
        alone = simulate(
            stage.result.workload, pod.with_sections(chips=1), stage.result.mapping
        ).run.served_cycles
        assert of_messages not in alone
        assert served[own] > 0


def test_stages_differ_by_the_links_of_their_messages() -> None:
    """Places 0 to 3 of 2 x 2: to the next along side 1, both sides, side 1 again."""
    pod = small_pod(8, "topology=torus", "dimensions=3")
    pod = with_values(pod, {"chips": "2x2x2"}, "test")
    run = run_stages(_build("decode", 8), pod, "strips", stages=4)
    messages = [stage.result.pod.exchanges[-1] for stage in run.stages]
    links = [{axis.number: axis.size for axis in message.axes} for message in messages]
    assert links == [{1: 1}, {0: 1, 1: 1}, {1: 1, 0: 0}, {1: 0}]
    assert [stage.name for stage in run.stages] == ["first", "layer 2", "layer 3", "last"]
