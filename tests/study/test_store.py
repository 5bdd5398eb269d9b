"""What is kept: found again, never trusted when it is damaged, the same whatever happened."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.files.targets import partial_path
from simaccel.importers.accelerators import load_accelerator
from simaccel.schedulers import Options
from simaccel.search.effort import Effort
from simaccel.study.figure_table import DRAM_FIGURES
from simaccel.study.points import Point, base_point
from simaccel.study.runs import key_of
from simaccel.study.store import ResultStore, open_store, store_in
from simaccel.workload import gemm
from tests.study.damages import FILE_DAMAGES

ASKED = replace(base_point(gemm(m=9, k=7, n=5), load_accelerator("toy")), dataflow="naive")
KEY = key_of(ASKED)
OWN, NO_PROCESS = f".{os.getpid()}-", 2**22 + 1
"""In names of temporary files: this process, and the number of none."""
RECORD: dict[str, object] = {
    "cycles": 12,
    "ideal_cycles": 30,
    **dict.fromkeys(DRAM_FIGURES, 8),
    "footprint_bytes": 0,
    "resident_bytes": 0,
    "memory_share": None,
    "energy_pj": {"mac": 0.1},
    "bound_cycles": 9,
    "limit": "array",
}


def _kept(folder: Path) -> Path:
    store = store_in(folder)
    open_store(store, "simaccel explore", 0)
    store.put(KEY, RECORD)
    (path,) = folder.glob("runs/*/*.json")
    return path


def test_what_was_put_is_found_by_another_store(tmp_path: Path) -> None:
    _kept(tmp_path / "s")
    store = store_in(tmp_path / "s")
    assert store.get(KEY) == RECORD
    assert (store.reused, store.damaged) == (1, [])
    assert store.get(key_of(replace(ASKED, dataflow="flex"))) is None


def _with_load(point: Point, **changed: Any) -> Point:  # noqa: ANN401 - fields of a load
    return replace(point, loads=(replace(point.loads[0], **changed),))


OTHERS = [
    _with_load(ASKED, workload=gemm(m=9, k=7, n=6)),
    _with_load(ASKED, workload=gemm(m=9, k=7, n=5, bytes_per_element=1)),
    replace(ASKED, accelerator=load_accelerator("toy", ["dram.latency_cycles=3"])),
    replace(ASKED, accelerator=load_accelerator("toy", ["energy.mac_pj=3"])),
    replace(ASKED, dataflow="flex"),
    replace(ASKED, dataflow="directives"),
    _with_load(ASKED, workload=replace(ASKED.workload, source=("net.m", "another"))),
    replace(ASKED, stages=2),
    replace(ASKED, stages=2, micro_batches=3),
    replace(ASKED, options=Options(pipeline=True)),
    replace(ASKED, options=Options(objective="energy")),
    replace(ASKED, options=Options(stationarity="os")),
    replace(ASKED, options=Options(constraints=("cols=M",))),
    replace(ASKED, options=Options(effort=Effort(seed=1))),
    replace(ASKED, options=Options(effort=Effort(patience=7))),
    replace(ASKED, options=Options(patience=7)),
    replace(ASKED, options=Options(tolerance=0.5)),
    replace(ASKED, options=Options(spread=("n=cores:4",))),
]


def test_all_that_decides_a_run_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({KEY, *map(key_of, OTHERS)}) == 1 + len(OTHERS)
    monkeypatch.setattr("simaccel.study.store.code_digest", lambda: "other")
    assert key_of(ASKED) != KEY
    monkeypatch.undo()
    monkeypatch.setattr("simaccel.study.store.version", lambda: "9.9")
    assert key_of(ASKED) != KEY


def test_what_is_there_for_readers_is_not() -> None:
    told = load_accelerator("toy", ["description=mine", "sfu.source=a paper"])
    assert key_of(replace(ASKED, accelerator=told)) == KEY


@pytest.mark.parametrize("damage", FILE_DAMAGES)
def test_a_damaged_entry_is_as_good_as_none_and_told(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = _kept(tmp_path / "s")
    whole = path.read_bytes()
    damage(path)
    store = store_in(tmp_path / "s")
    assert store.get(KEY) is None
    assert store.damaged == [path.relative_to(tmp_path / "s").as_posix()]
    store.put(KEY, RECORD)
    assert path.read_bytes() == whole


@given(at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_seen(tmp_path_factory: pytest.TempPathFactory, at: int, bit: int) -> None:
    path = _kept(tmp_path_factory.mktemp("s") / "s")
    data = bytearray(path.read_bytes())
    data[at % len(data)] ^= 1 << bit
    path.write_bytes(data)
    assert store_in(path.parents[2]).get(KEY) is None


def test_an_entry_beyond_the_limit_is_neither_written_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry is {"found": "x...", "key": "ab"}: 26 characters beside those of the text."""
    monkeypatch.setattr("simaccel.study.store._MOST_BYTES", 2000)
    store = ResultStore(tmp_path / "s")
    for length, is_written in ((973, True), (974, False)):
        store.put("ab", "x" * length)
        assert store.get("ab") == "x" * length
        assert ResultStore(tmp_path / "s").get("ab") == ("x" * length if is_written else None)
        (tmp_path / "s" / "ab" / "ab.json").unlink(missing_ok=True)
    store.put("ab", "x")
    path = tmp_path / "s" / "ab" / "ab.json"
    text = path.read_text()
    for length, damaged in ((2000, []), (2001, ["s/ab/ab.json"])):
        path.write_text(text + " " * (length - len(text)))
        other = ResultStore(tmp_path / "s")
        assert other.get("ab") == (None if damaged else "x")
        assert other.damaged == damaged


def test_an_entry_of_another_run_is_none(tmp_path: Path) -> None:
    path = _kept(tmp_path / "s")
    other = OTHERS[0]
    there = tmp_path / "s" / "runs" / key_of(other)[:2] / f"{key_of(other)}.json"
    there.parent.mkdir(exist_ok=True)
    there.write_bytes(path.read_bytes())
    store = store_in(tmp_path / "s")
    assert store.get(key_of(other)) is None
    assert len(store.damaged) == 1


def test_the_manifest_says_what_was_done_with_what_once(tmp_path: Path) -> None:
    for command in ("first", "first", "second", "first"):
        open_store(store_in(tmp_path / "s"), command, 3)
    found = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert [one["command"] for one in found["explorations"]] == ["first", "second"]
    one = found["explorations"][0]
    assert one["seed"] == 3
    assert {"simaccel", "code", "python", "numpy", "host"} < one.keys()
    assert one["host"]["processors"] == os.cpu_count()


def test_a_damaged_manifest_is_told_and_made_again(tmp_path: Path) -> None:
    _kept(tmp_path / "s")
    (tmp_path / "s" / "manifest.json").write_text("{")
    store = store_in(tmp_path / "s")
    open_store(store, "again", 0)
    assert store.damaged == ["manifest.json"]
    assert store.get(KEY) == RECORD


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    left = partial_path(_kept(tmp_path / "s"))
    dead, living = (left.with_name(left.name.replace(OWN, f".{pid}-")) for pid in (NO_PROCESS, 1))
    dead.write_text("{")
    living.write_text("{")
    open_store(store_in(tmp_path / "s"), "again", 0)
    assert not dead.exists()
    assert living.exists()


def test_a_folder_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    allowed = "a new or empty folder, or one that explore or compare has made"
    with pytest.raises(InputError, match=allowed):
        store_in(tmp_path)
    with pytest.raises(InputError, match="a folder in one that exists"):
        store_in(tmp_path / "a" / "b")
    with pytest.raises(InputError, match="got 'Not a directory'"):
        store_in(tmp_path / "mine.txt")


def test_a_run_whose_energy_nobody_knows_is_kept(tmp_path: Path) -> None:
    """Its energies are null in the file, which is no damage."""
    store = store_in(tmp_path / "s")
    open_store(store, "simaccel explore", 0)
    store.put(KEY, RECORD | {"energy_pj": {"mac": None}})
    again = store_in(tmp_path / "s")
    assert again.get(KEY) is not None
    assert again.damaged == []
