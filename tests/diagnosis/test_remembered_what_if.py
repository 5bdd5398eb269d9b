"""What-if runs are remembered under all that decides them, and done again where they are not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from simaccel.diagnosis import remembered_what_if as module
from simaccel.diagnosis.remembered_what_if import remembered_what_if
from simaccel.diagnosis.what_if import BaseRun, WhatIfResult, what_if
from simaccel.experiment.recording import record
from simaccel.hardware import Accelerator
from simaccel.importers.accelerators import load_accelerator
from simaccel.program.lowering import lower
from simaccel.program.program import Program
from simaccel.schedulers import make_mapping
from simaccel.trace import TraceReader
from simaccel.workload import VECTORS, build, gemm
from tests.experiment.damages import DAMAGES
from tests.program.programs import gemm_case

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
    monkeypatch.setattr("simaccel.experiment.store.code_digest", lambda: "other code")
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
    given: list[BaseRun | None] = []

    def with_base(
        on: Accelerator, program: Program, *, base: BaseRun | None, **_: object
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
    assert given[0] is not None
    assert given[0].freed == found[0].base
    assert given[1] is None
