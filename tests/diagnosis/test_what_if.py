"""Runs with something freed, by hand and built another way; they are remembered."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.diagnosis.free_slots import FREE_SLOTS
from simaccel.diagnosis.what_if import (
    CASES,
    RESOURCES,
    FreedRun,
    WhatIfResult,
    free,
    takes_time,
    what_if,
)
from simaccel.hardware import Accelerator
from simaccel.hardware.presets import template
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine, Run
from simaccel.program.fit import rings
from simaccel.program.lowering import lower, lower_group
from simaccel.program.program import Program, commands, tiles_of
from simaccel.schedulers import make_mapping
from simaccel.study import stall_analysis as module
from simaccel.study.recording import record
from simaccel.study.stall_analysis import remembered_what_if
from simaccel.trace import TraceReader
from simaccel.workload import VECTORS, build, gemm
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator, accelerators, gigabytes
from tests.program.programs import (
    Case,
    Rows,
    attention_workload,
    cases,
    gemm_case,
    gemm_cases,
    softmax_group,
)
from tests.properties.test_dram_order import early_loads
from tests.study.damages import DAMAGES

FEW = settings(max_examples=3 * DRAWS)
CHOICES = st.sets(st.sampled_from(RESOURCES)).map(lambda found: tuple(sorted(found)))


def _cycles(on: Accelerator, program: Program, *case: str) -> int:
    found = what_if(on, program, [case])
    return found.freed[0].cycles


def test_each_resource_of_one_gemm_by_hand() -> None:
    """A (32 B) and B (32 B) through one queue, 14 cycles of fold, 32 B of results.

    Loads 0 to 64, latency 5: the array starts at 69, ends at 83; the store ends at 115. The
    ports move 32 B in 1 cycle beside the DRAM, which shows only without it. The fold is
    4 (preload) + 4 (stream) + 6 (skew).
    """
    on = accelerator(
        dram={"bandwidth_bytes_per_second": "1 GB/s", "latency_cycles": 5},
        buffer={"read_bytes_per_second": "32 GB/s", "write_bytes_per_second": "32 GB/s"},
        dma={"in_queues": "single"},
    )
    one = gemm_case(gemm(m=4, k=4, n=4))
    found = what_if(on, one.program)
    assert found.base.cycles == 115
    assert found.base.operators == {"gemm": 115}
    assert {freed.resources: freed.cycles for freed in found.freed} == {
        ("dram_bandwidth",): 2 + 5 + 14 + 1,  # loads and store still use the ports
        ("dram_latency",): 64 + 14 + 32,
        ("dram_bandwidth", "dram_latency"): 2 + 14 + 1,
        ("buffer_ports",): 115,
        ("noc",): 115,
        ("sfu",): 115,
        ("array",): 69 + 2 + 32,  # the fold still reads 64 B
        ("array_loading",): 115 - 4,  # without its preload
        ("array", "noc"): 69 + 2 + 32,
        ("slots",): 115,
    }


def test_a_dram_bound_chain_without_dram_is_the_arrays_work() -> None:
    """Six folds of 14 cycles, nothing else takes time."""
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s", "latency_cycles": 50})
    one = gemm_case(gemm(m=4, k=4, n=24), n=4, b_slots=2, out_slots=2)
    assert _cycles(on, one.program, "dram_bandwidth", "dram_latency") == 6 * 14
    assert Machine(on, one.program).run().cycles > 6 * 32  # each B is 32 cycles of DRAM alone


def test_slots_hide_a_latency() -> None:
    """With one slot each of five B tiles takes 20 + 14 cycles; with more the first one does."""
    on = accelerator(dram={"latency_cycles": 20})
    one = gemm_case(gemm(m=4, k=4, n=20), n=4, a_slots=1, b_slots=1, out_slots=1)
    assert Machine(on, one.program).run().cycles == 5 * (20 + 14)
    assert _cycles(on, one.program, "slots") == 20 + 5 * 14


def test_a_free_sfu_leaves_the_load() -> None:
    """Three passes of 12 elements, one a cycle, after a load that takes 5 cycles to arrive."""
    on = accelerator(dram={"latency_cycles": 5})
    workload = attention_workload(1, 1, 3, 4)
    group = softmax_group(workload, "softmax", Rows(rows=3, cols=3))
    program = Program(name="softmax", body=(lower_group(workload, group),))
    assert Machine(on, program).run().cycles == 5 + 3 * 9
    assert _cycles(on, program, "sfu") == 5


def test_a_free_noc_takes_its_width_and_its_latency() -> None:
    """A bus of 1 B/cycle needs 64 cycles for 64 B of operands and 32 for the results."""
    pipe = {"topology": "bus", "link_bytes_per_cycle": 1, "hop_cycles": 3}
    on = accelerator(noc={"distribution": pipe, "collection": pipe}, dram={"latency_cycles": 1})
    one = gemm_case(gemm(m=4, k=4, n=4))
    assert Machine(on, one.program).run().cycles == 1 + 3 + 64 + 3
    assert _cycles(on, one.program, "noc") == 1 + 14


def _built(on: Accelerator, case: tuple[str, ...]) -> Accelerator:
    """Build the accelerator with memory and NoC freed as a user would: in its file."""
    raw: dict[str, Any] = {
        "array": on.array.model_dump(),
        "buffer": {k: "unlimited" if v is None else v for k, v in on.buffer.model_dump().items()},
        "noc": on.noc.model_dump(),
        "sfu": on.sfu.model_dump(),
        "dram": {k: "unlimited" if v is None else v for k, v in on.dram.model_dump().items()},
        "dma": on.dma.model_dump(),
        "compiler": on.compiler.model_dump(),
    }
    changes: dict[str, dict[str, Any]] = {
        "dram_bandwidth": {"dram": {"bandwidth_bytes_per_second": gigabytes(None)}},
        "dram_latency": {"dram": {"latency_cycles": 0}},
        "buffer_ports": {
            "buffer": dict.fromkeys(
                ("read_bytes_per_second", "write_bytes_per_second"), gigabytes(None)
            )
        },
        "noc": {"noc": {"collection": {"topology": "unlimited"}}},
    }
    for resource in case:
        for section, fields in changes[resource].items():
            raw[section] |= fields
    if "noc" in case:
        raw["noc"]["distribution"] |= {"topology": "unlimited"}
    raw["memories"] = {
        kind: {k: "unlimited" if v is None else v for k, v in memory.model_dump().items()}
        for kind, memory in on.memories.by_class().items()
    }
    for resource in {"dram_bandwidth", "dram_latency"} & set(case):
        for memory in raw["memories"].values():
            memory.update(changes[resource]["dram"])
    return accelerator(**raw)


@FEW
@given(
    cases(),
    accelerators(),
    st.sets(st.sampled_from(["dram_bandwidth", "dram_latency", "buffer_ports", "noc"])),
)
def test_a_freed_resource_is_an_accelerator_without_its_limit(
    one: Case, on: Accelerator, chosen: set[str]
) -> None:
    case = tuple(sorted(chosen))
    expected = Machine(_built(on, case), one.program).run()
    found = what_if(on, one.program, [case]).freed[0]
    assert found.cycles == expected.cycles
    assert found.operators == {one.name: one.cycles for one in expected.operators}


@FEW
@given(cases(), accelerators(), CHOICES)
def test_a_free_engine_does_nothing(one: Case, on: Accelerator, case: tuple[str, ...]) -> None:
    run = Machine(*free(on, one.program, case)).run()
    plain = Machine(on, one.program).run()
    for engine in ("array", "sfu"):
        busy = 0 if engine in case else plain.engines[engine].busy
        if engine == "array" and "array_loading" in case:  # of folds that don't overlap a part
            assert run.engines[engine].busy <= busy
        else:
            assert run.engines[engine].busy == busy
    assert _bytes(run) == _bytes(plain)
    assert run.macs == plain.macs


def _bytes(run: Run) -> dict[tuple[str, str], int]:
    """Give what passes DRAM and ports; a chain that is no chain any more needs copies."""
    return {key: n for key, n in run.moved.items() if not key[0].startswith("noc")}


ALONE = accelerators(
    dram={"bandwidth_bytes_per_second": "unlimited", "in_flight_bytes": "unlimited"},
    buffer={"read_bytes_per_second": "unlimited", "write_bytes_per_second": "unlimited"},
)


@FEW
@given(cases(), ALONE, CHOICES)
def test_where_nothing_is_shared_nothing_freed_costs_cycles(
    one: Case, on: Accelerator, case: tuple[str, ...]
) -> None:
    """Each start is a maximum of finishes then; shared turns may do worse (test_monotone)."""
    found = what_if(on, one.program, [case])
    assert all(freed.cycles <= found.base.cycles for freed in found.freed)


@FEW
@given(gemm_cases(), accelerators())
def test_partial_sums_are_stored_before_they_are_loaded_also_with_more_slots(
    one: Case, on: Accelerator
) -> None:
    freed, program = free(on, one.program, ("slots",))
    assert early_loads(freed, replace(one, program=program)) == []


@given(cases())
def test_freed_slots_change_nothing_but_slots(one: Case) -> None:
    _, program = free(accelerator(), one.program, ("slots",))
    before, after = rings(one.program.body), rings(program.body)
    assert {name: size for name, (size, _) in after.items()} == {
        name: size for name, (size, _) in before.items()
    }
    for name, (_, slots) in after.items():
        assert before[name][1] <= slots
        assert slots == max(FREE_SLOTS, before[name][1]) or name.endswith("_sums")
    for command in commands(program.body):
        assert all(tile.slots <= after[tile.name][1] for tile in tiles_of(command))


def test_array_and_sfu_are_not_freed_where_memory_takes_no_time() -> None:
    on = accelerator()
    assert [case for case in CASES if takes_time(on, case)] == [
        case for case in CASES if "array" not in case and "sfu" not in case
    ]
    assert all(takes_time(accelerator(dram={"latency_cycles": 1}), case) for case in CASES)


def test_progress_goes_from_run_to_run() -> None:
    seen: list[float] = []
    on = accelerator(dram={"bandwidth_bytes_per_second": "1 GB/s"})
    what_if(on, gemm_case(gemm(m=4, k=4, n=4)).program, [("noc",)], seen.append)
    assert seen == sorted(seen)
    assert all(0 <= part <= 1 for part in seen)
    assert seen[-1] == 1


def test_energy_of_a_part_stays_known_where_memory_takes_no_time(tmp_path: Path) -> None:
    """The template's accelerator has no figure of its own for DRAM."""
    (tmp_path / "mine.yaml").write_text(template("mine", ["edge"]))
    on, of = load_accelerator(tmp_path / "mine.yaml"), gemm(m=9, k=7, n=5)
    program = lower(of, make_mapping(of, on, "naive"))
    for resource in RESOURCES:
        freed, _ = free(on, program, (resource,))
        assert freed.prices == on.prices


TOY = load_accelerator("toy")
PROGRAM = gemm_case(gemm(m=4, k=4, n=4)).program
WITH_SOFTMAX = build("bert", seq_len=8, scope="la")
OTHER = gemm_case(gemm(m=4, k=4, n=5)).program


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the programs that were run; what is found goes to an empty folder."""
    found: list[str] = []

    def counted(*arguments: object, **named: object) -> WhatIfResult:
        found.append("run")
        return what_if(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "what_if", counted)
    monkeypatch.setenv("SIMACCEL_CACHE", str(tmp_path / "kept"))
    return found


def test_the_same_is_run_once(runs: list[str]) -> None:
    first = remembered_what_if(TOY, PROGRAM)
    assert first == remembered_what_if(TOY, PROGRAM) == what_if(TOY, PROGRAM)
    assert len(runs) == 1


def test_program_accelerator_and_code_are_part_of_the_key(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remembered_what_if(TOY, PROGRAM)
    remembered_what_if(TOY, OTHER)
    remembered_what_if(load_accelerator("toy", ["dram.latency_cycles=77"]), PROGRAM)
    monkeypatch.setattr("simaccel.study.store.code_digest", lambda: "other code")
    remembered_what_if(TOY, PROGRAM)
    assert len(runs) == 4


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_run_again(
    runs: list[str], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    first = remembered_what_if(TOY, PROGRAM)
    (path,) = tmp_path.rglob("*.json")
    damage(path)
    assert remembered_what_if(TOY, PROGRAM) == first
    assert remembered_what_if(TOY, PROGRAM) == first
    assert len(runs) == 2


def test_a_folder_that_cannot_be_written_does_no_harm(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for folder in (str(tmp_path / "file"), "off"):
        monkeypatch.setenv("SIMACCEL_CACHE", folder)
        remembered_what_if(TOY, PROGRAM)
    assert len(runs) == 2


def test_a_plug_ins_operator_is_run_each_time(
    runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if softmax were one: its passes are not in the key."""
    program = lower(WITH_SOFTMAX, make_mapping(WITH_SOFTMAX, TOY, "naive-m"))
    others = {kind: one for kind, one in VECTORS.own.items() if kind != "softmax"}
    monkeypatch.setattr(VECTORS, "own", others)
    monkeypatch.setattr(module, "what_if", lambda *_, **__: runs.append("run"))
    for _ in range(2):
        remembered_what_if(TOY, program)
    assert len(runs) == 2


def test_a_trace_that_this_code_wrote_has_the_run_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[FreedRun | None] = []

    def with_base(
        on: Accelerator, program: Program, *, base: FreedRun | None, **_: object
    ) -> WhatIfResult:
        given.append(base)
        return what_if(on, program, base=base)

    monkeypatch.setattr(module, "what_if", with_base)
    monkeypatch.setenv("SIMACCEL_CACHE", "off")
    record(tmp_path / "run.h5", gemm(m=21, k=11, n=6), TOY, "naive")
    with TraceReader.open(tmp_path / "run.h5") as trace:
        program = trace.program()
        found = [remembered_what_if(TOY, program, trace=trace)]
        monkeypatch.setattr(module, "code_digest", lambda: "other code")
        found.append(remembered_what_if(TOY, program, trace=trace))
    assert found == [what_if(TOY, program)] * 2
    assert given[0] == found[0].base
    assert given[1] is None
