"""Mappings are remembered under all that decides them, and searched again where that is not so."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, make_mapping
from simaccel.search.accounts import SearchAccount
from simaccel.search.effort import Effort
from simaccel.study import scheduling
from simaccel.workload import gemm
from tests.program.programs import attention_workload
from tests.study.damages import DAMAGES

_GEMM = gemm(m=7, k=5, n=3)
_TOY = load_accelerator("toy")


@pytest.fixture
def searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of dataflows that were searched; mappings go to an empty folder."""
    found: list[str] = []

    def counted(*arguments: object) -> Mapping:
        found.append(str(arguments[2]))
        return make_mapping(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(scheduling, "make_mapping", counted)
    monkeypatch.setenv("SIMACCEL_CACHE", str(tmp_path / "new" / "folder"))
    return found


def test_the_same_is_searched_once(searches: list[str]) -> None:
    first = scheduling.schedule_workload(_GEMM, _TOY, "flex")
    assert scheduling.schedule_workload(_GEMM, _TOY, "flex") == first
    assert searches == ["flex"]


def test_all_that_decides_is_part_of_the_key(searches: list[str]) -> None:
    scheduling.schedule_workload(_GEMM, _TOY, "flex")
    scheduling.schedule_workload(gemm(m=7, k=5, n=4), _TOY, "flex")
    scheduling.schedule_workload(_GEMM, load_accelerator("toy", ["dram.latency_cycles=77"]), "flex")
    scheduling.schedule_workload(_GEMM, _TOY, "naive")
    scheduling.schedule_workload(_GEMM, _TOY, "flex", Options(objective="energy"))
    assert searches == ["flex", "flex", "flex", "naive", "flex"]


def test_dataflows_that_fuse_attentions_alone_share_a_search_without_one(
    searches: list[str],
) -> None:
    """What is remembered has the name of who asks, and is what each finds itself."""
    for dataflow in ("flex", "flat-r", "flash", "naive", "naive-b"):
        known = scheduling.schedule_workload(_GEMM, _TOY, dataflow)
        assert known == make_mapping(_GEMM, _TOY, dataflow)
    scheduling.schedule_workload(attention_workload(1, 1, 4, 2), _TOY, "flash")
    assert searches == ["flex", "naive", "flash"]


def test_how_it_was_searched_is_remembered(searches: list[str]) -> None:
    now: list[SearchAccount] = []
    then: list[SearchAccount] = []
    scheduling.schedule_workload(_GEMM, _TOY, "flex", record=now.append)
    scheduling.schedule_workload(_GEMM, _TOY, "flex", record=then.append)
    assert searches == ["flex"]
    assert then == now
    assert [one.operators for one in then] == [("gemm",)]


def test_progress_is_told_of_searches_alone(searches: list[str]) -> None:
    progress: list[SearchAccount] = []
    for _ in range(2):
        scheduling.schedule_workload(_GEMM, _TOY, "flex", Options(on_account=progress.append))
    assert searches == ["flex"]
    assert len(progress) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_searched_again(
    searches: list[str], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    first = scheduling.schedule_workload(_GEMM, _TOY, "flex")
    (path,) = tmp_path.rglob("*.json")
    damage(path)
    assert scheduling.schedule_workload(_GEMM, _TOY, "flex") == first
    assert scheduling.schedule_workload(_GEMM, _TOY, "flex") == first
    assert searches == ["flex", "flex"]


def test_what_depends_on_the_time_is_not_remembered(searches: list[str]) -> None:
    options = Options(effort=Effort(budget_seconds=5))
    for _ in range(2):
        scheduling.schedule_workload(_GEMM, _TOY, "flex", options)
    assert searches == ["flex", "flex"]


def test_a_folder_that_cannot_be_written_does_no_harm(
    searches: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SIMACCEL_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        scheduling.schedule_workload(_GEMM, _TOY, "flex")
    assert searches == ["flex", "flex"]
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.skipif(os.name == "nt", reason="has users of another kind")
def test_a_user_without_a_home_has_nothing_remembered(
    searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that is run with the number of a user whom nobody knows."""

    def unknown(_number: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", "SIMACCEL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    for _ in range(2):
        scheduling.schedule_workload(_GEMM, _TOY, "flex")
    assert searches == ["flex", "flex"]


def test_off_remembers_nothing(searches: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMACCEL_CACHE", "off")
    for _ in range(2):
        scheduling.schedule_workload(_GEMM, _TOY, "flex")
    assert searches == ["flex", "flex"]
