"""What is said of an operator, word by word, for hand-made accounts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from simaccel.diagnosis.stalls import TOTAL, OperatorDiagnosis
from simaccel.diagnosis.verdict import VerdictFigures
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.verdict import engine_text, sentences
from simaccel.trace import Stall
from tests.data_files import data_beside
from tests.machine.accelerators import accelerator

# 4 x 4 PEs at 1 GHz: DRAM 50, ports 32 B/cycle, distribution 16 B/cycle
MACHINE = accelerator(
    dram={"bandwidth_bytes_per_second": "50 GB/s", "latency_cycles": 72, "in_flight_bytes": 4096},
    buffer={"read_bytes_per_second": "32 GB/s", "write_bytes_per_second": "32 GB/s"},
    noc={
        "distribution": {"topology": "systolic", "link_bytes_per_cycle": 4, "hop_cycles": 9},
        "collection": {"topology": "systolic", "link_bytes_per_cycle": 4, "hop_cycles": 3},
    },
    sfu={"lanes": 8},
)


def _scene(
    array: dict[str, int],
    name: str = "A",
    sfu: dict[str, int] | None = None,
    waits: Sequence[Sequence[str]] = (),
    gains: dict[str, float] | None = None,
    moved: dict[str, dict[str, int]] | None = None,
    macs: int | None = None,
    loading_cycles: int = 0,
) -> VerdictFigures:
    """Put an operator of 1000 cycles together; gains are of resources with blanks between."""
    rest = {"idle": 1000 - sum(array.values())} if sum(array.values()) < 1000 else {}
    engines: dict[str, Any] = {"array": array | rest, "sfu": sfu or {"idle": 1000}}
    stalls = tuple(_wait(*wait) for wait in waits)
    part = OperatorDiagnosis(name, 1000, engines, stalls, macs, moved or {})
    freed = {tuple(names.split()): gain for names, gain in (gains or {}).items()}
    ideal = (macs or 0) / MACHINE.pes
    return VerdictFigures(part, MACHINE, freed, loading_cycles=loading_cycles, ideal_cycles=ideal)


def _wait(cause: str, tile: str, kind: str, holder: str, engine: str = "array") -> Stall:
    return Stall(engine, "A", cause, tile, kind, holder, 300)


CASES: dict[str, dict[str, Any]] = data_beside(__file__)


@pytest.mark.parametrize("name", CASES)
def test_what_is_said(name: str) -> None:
    assert " ".join(sentences(_scene(**CASES[name]["operator"]))) == CASES[name]["said"]


@pytest.fixture
def spatial() -> Accelerator:
    """2 B/cycle each way at 1 GHz, 3 cycles in and 1 out."""
    fields = [f"noc.{way}.topology=bus" for way in ("distribution", "collection")]
    hops = ["noc.distribution.hop_cycles=3", "noc.collection.hop_cycles=1"]
    return load_accelerator("toy_linear", [*fields, *hops])


def test_a_noc_that_is_not_full_pays_no_gemm_on_a_spatial_array(spatial: Accelerator) -> None:
    scene = _scene(
        {"busy": 700, "noc": 300},
        moved={"noc_distribution": {"W": 600}, "noc_collection": {"O": 100}},
    )
    assert " ".join(sentences(replace(scene, accelerator=spatial))) == (
        "A waits 30% of its time: the PEs wait for data on the NoC, although its distribution "
        "pipe runs at 600 MB/s of 2.00 GB/s (30%) only; latency 3 cycles in and 1 out."
    )


def test_pes_of_a_spatial_array_are_left_unused_by_passes(spatial: Accelerator) -> None:
    scene = replace(_scene({"busy": 1000}), accelerator=spatial, ideal_cycles=300)
    assert " ".join(sentences(scene)) == (
        "A is bound by the array, busy 100% of the time, but its PEs multiply in only 30% of the "
        "cycles: passes that leave PEs, vector units or lanes unused."
    )


def test_array_and_sfu_take_turns() -> None:
    engines = {"array": {"busy": 600, "sfu": 400}, "sfu": {"busy": 400, "array": 600}}
    waits = (_wait("sfu", "S", "ready", "sfu"),)
    scene = VerdictFigures(OperatorDiagnosis("L+softmax+A", 1000, engines, waits), MACHINE)
    assert sentences(scene) == [
        (
            "L+softmax+A waits 40% of its time for S tiles from the SFU: the SFU is busy 40% with "
            "its 8 lanes in 3 passes, and array and SFU take turns instead of overlapping."
        )
    ]


def _operator(name: str, cycles: int, **engines: dict[str, int]) -> OperatorDiagnosis:
    idle: dict[str, dict[str, int]] = {one: {"idle": cycles} for one in ("array", "sfu")}
    return OperatorDiagnosis(name, cycles, idle | engines)


def test_a_run_waits_mostly_in_some_operators() -> None:
    parts = [
        _operator("FF2", 600, array={"busy": 200, "dram_bandwidth": 400}),
        _operator("Q", 200, array={"busy": 140, "dram_bandwidth": 60}),
        _operator("K", 200, array={"busy": 160, "dram_bandwidth": 40}),
    ]
    engines = {"array": {"busy": 500, "dram_bandwidth": 500}, "sfu": {"idle": 1000}}
    total = OperatorDiagnosis(TOTAL, 1000, engines, moved={"dram": {"": 45_000}})
    assert sentences(VerdictFigures(total, MACHINE, operators=tuple(parts))) == [
        "The run waits 50% of its time (mostly in FF2): DRAM runs at 45.0 of 50.0 GB/s (90%)."
    ]


def test_a_run_waits_also_where_its_array_has_nothing_to_do() -> None:
    """L and A wait 450 of 690 cycles, and the SFU 300 of 310 while the array is idle: 750."""
    parts = [
        _operator("L", 400, array={"busy": 140, "dram_bandwidth": 260}),
        _operator("softmax", 310, sfu={"busy": 10, "dram_bandwidth": 300}),
        _operator("A", 290, array={"busy": 100, "dram_bandwidth": 190}),
    ]
    engines = {
        "array": {"busy": 240, "dram_bandwidth": 450, "idle": 310},
        "sfu": {"busy": 10, "dram_bandwidth": 300, "idle": 690},
    }
    total = OperatorDiagnosis(TOTAL, 1000, engines, moved={"dram": {"": 49_000}})
    assert " ".join(sentences(VerdictFigures(total, MACHINE, operators=tuple(parts)))) == (
        "The run waits 75% of its time (mostly in softmax and L): DRAM runs at 49.0 of 50.0 GB/s "
        "(98%)."
    )


def test_cores_have_ports_each() -> None:
    scene = _scene(**CASES["port"]["operator"])  # 31,000 B, of which a second core does half
    engines = {**scene.part.engines, "core1.array": {"busy": 700, "buffer_port": 300}}
    cores = MACHINE.cores.model_copy(update={"count": 4})
    both = replace(
        scene,
        part=replace(scene.part, engines=engines),
        accelerator=MACHINE.model_copy(update={"cores": cores}),
    )
    assert "read port runs at 31.0 of 64.0 GB/s (48%)" in " ".join(sentences(both))


@pytest.mark.parametrize(
    ("busy", "doing"), [(92, "is busy 9.2%"), (0, "works on another operator")]
)
def test_units_are_those_of_the_chip_that_is_described(busy: int, doing: str) -> None:
    engines = {"chip2.sfu": {"busy": 100, "array": 900}, "chip2.array": {"busy": busy}}
    part = OperatorDiagnosis("second", 1000, engines)
    assert f"the array {doing}." in " ".join(sentences(VerdictFigures(part, MACHINE)))


def test_operators_at_once_do_not_wait_longer_than_they_last() -> None:
    parts = [
        OperatorDiagnosis(name, 100, {engine: {"busy": 40, "noc": 60}})
        for name, engine in (("a", "array"), ("b", "core1.array"))
    ]
    total = OperatorDiagnosis(TOTAL, 100, {"array": {"busy": 40, "noc": 60}})
    said = " ".join(sentences(VerdictFigures(total, operators=tuple(parts))))
    assert said.startswith("The run waits 60% of its time")


def test_what_stays_on_the_chip_is_no_part_of_the_dram() -> None:
    """600,000 B in 1000 cycles at 1.05 GHz; memories of a class of tensors hide how many."""
    scene = _scene({"busy": 390, "dram_bandwidth": 610}, moved={"dram_read": {"V": 600_000}})
    chip = replace(scene, accelerator=load_accelerator("tpu_v4"))
    assert "DRAM reads run at 630 GB/s of" in " ".join(sentences(chip))
    apart = load_accelerator("tpu_v4", ["memories.weight.bandwidth_bytes_per_second=1 GB/s"])
    assert "queue for DRAM bandwidth" in " ".join(sentences(replace(scene, accelerator=apart)))


def test_turnarounds_cost_bandwidth_too() -> None:
    one = accelerator(dram={"bandwidth_bytes_per_second": "50 GB/s", "turnaround_cycles": 2})
    engines = {"array": {"busy": 500, "dram_bandwidth": 500}, "sfu": {}}
    moved = {"dram_read": {"X": 10_000}, "dram_write": {"Y": 10_000}}
    for turnaround, said in (
        (one, "the rest goes to turnarounds, or comes in bursts that nothing overlaps"),
        (MACHINE, "it is not full, so the transfers come in bursts that nothing overlaps"),
    ):
        (sentence,) = sentences(
            VerdictFigures(OperatorDiagnosis("A", 1000, engines, (), None, moved), turnaround)
        )
        assert sentence == (
            f"A waits 50% of its time: DRAM runs at 20.0 of 50.0 GB/s (40%); {said}."
        )


def test_engines_have_names() -> None:
    assert [engine_text(name) for name in ("array", "sfu", "dma_out", "dma_in")] == [
        "the array",
        "the SFU",
        "the stores (dma_out)",
        "the loads (dma_in)",
    ]
