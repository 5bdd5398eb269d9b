"""The long comparison of fast-forward is silent on this machine, and speaks where it is broken."""

from dataclasses import replace
from functools import partial

import pytest
import yaml

from simaccel.hardware import Accelerator
from simaccel.machine.engines import Engine
from simaccel.program.program import Operator, Program, ProgramLoop, size
from simaccel.program.text import parse_program
from validation.fast_forward import run
from validation.fast_forward.check import draw, extent, fails, measure
from validation.fast_forward.shrink import smaller

SEED = 7


def test_nothing_differs_in_a_few_cases_and_a_seed_gives_the_same_again() -> None:
    found = [measure(SEED, number) for number in range(12)]
    assert [one.fault for one in found] == [""] * 12
    assert sum(one.traced for one in found) == 2
    assert measure(SEED, 3) == found[3]
    assert len({one.seed for one in found} | {measure(SEED + 1, 0).seed}) == 13


def test_extent_by_hand() -> None:
    inner = ProgramLoop(rank="x", trips=3)
    body = (ProgramLoop(rank="y", trips=5, body=(inner,)), ProgramLoop(rank="z", trips=7))
    operators = tuple(Operator(name=name, body=body) for name in "ab")
    program = Program(name="p", body=(ProgramLoop(rank="l", trips=2, body=operators),))
    assert extent(program) == (3, 2, 2 * 5 * 3)


def test_each_smaller_program_is_smaller() -> None:
    program = draw(SEED, 0)[1].program
    found = list(smaller(program))
    assert found
    assert all(_weight(one) < _weight(program) for one in found)


def _weight(program: Program) -> int:
    def trips(body: tuple[object, ...]) -> int:
        below = (trips(n.body) for n in body if isinstance(n, ProgramLoop | Operator))
        return sum(n.trips for n in body if isinstance(n, ProgramLoop)) + sum(below)

    return size(program) + trips(program.body)


def test_what_is_broken_is_found_and_reproduced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Engine, "counters", lambda _: ())  # a skip forgets what was executed
    outcomes = [measure(SEED, number) for number in range(6)]
    broken = [number for number, one in enumerate(outcomes) if one.fault]
    assert broken
    run.report_failures(outcomes, SEED)
    told = capsys.readouterr().err
    assert f"case {broken[0]} differs:\n" in told

    assert "macs: " in told
    text, _, document = told.partition("\nprogram:\n")[2].partition("\naccelerator:\n")
    program, on = parse_program(text), Accelerator.model_validate(yaml.safe_load(document))
    assert fails(on, program)
    assert not any(map(partial(fails, on), smaller(program)))
    monkeypatch.undo()
    assert not fails(on, program)


def test_the_table_counts_by_kind() -> None:
    found = [measure(SEED, number) for number in range(12)]
    lines = run.summary(found)
    assert lines[0][:3] == ("all", "", 12)
    for by in ("program", "levels", "operators", "most trips", "periodic"):
        assert sum(line[2] for line in lines if line[0] == by) == 12
    wrong = [replace(found[0], fault="cycles"), *found[1:]]
    assert run.summary(wrong)[0][-1] == 1
    assert run.table(lines).splitlines()[2].startswith("| all |  | 12 | 2 | ")


@pytest.mark.parametrize("cases", ["0", "-3", "many"])
def test_a_wrong_number_of_cases_is_refused(cases: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["--cases", cases])
    assert "--cases" in capsys.readouterr().err
