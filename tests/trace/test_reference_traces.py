"""The traces in `traces/`: sound, as their schema says, and what simaccel writes today."""

import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest

from examples.make_traces import FOLDER, REFERENCES, Reference
from simaccel import load_accelerator
from simaccel.importers.workloads import load_workload
from simaccel.mapping.files import load_mapping
from simaccel.study.recording import record
from simaccel.trace import SCHEMA_VERSION, TraceReader

MOST_BYTES = 100_000
WINDOW = 50_000
"""Cycles at both ends of a run in which every event is compared."""
FREE = ("events",)
"""Figures that may change without a change to the run: how often fast-forward looked."""

each = pytest.mark.parametrize("reference", REFERENCES, ids=lambda reference: reference.name)


def test_every_trace_has_a_script_and_is_small() -> None:
    assert {path.stem for path in FOLDER.glob("*.h5")} == {one.name for one in REFERENCES}
    assert all(one.path.stat().st_size < MOST_BYTES for one in REFERENCES)


def test_they_show_what_they_are_for() -> None:
    figures, segments = {}, {}
    for one in REFERENCES:
        with TraceReader.open(one.path) as trace:
            figures[one.name], segments[one.name] = trace.figures, trace.n_segments
    spilled = figures["toy_gemm_naive"]["bytes"]["dram"]
    assert spilled["read"]["C"] > 0
    kept = figures["toy_attention_flat"]["bytes"]["dram"]
    assert set(kept["read"]) | set(kept["write"]) == set("QKVZ")
    assert segments["edge_bert_flat"] > 0


@each
def test_it_is_sound(reference: Reference) -> None:
    with TraceReader.open(reference.path) as trace:
        trace.check()
        assert trace.figures["cycles"] == trace.cycles
        assert trace.header.seed == 0
        assert trace.header.sites


def _rerun(reference: Reference, folder: Path) -> Path:
    """Run what the header of a trace says, and nothing else."""
    with TraceReader.open(reference.path) as trace:
        header = trace.header
    for name in ("accelerator", "workload", "mapping"):
        (folder / f"{name}.yaml").write_text(getattr(header, name), encoding="utf-8")
    workload = load_workload(folder / "workload.yaml")
    mapping = load_mapping(folder / "mapping.yaml", workload)
    record(folder / "again.h5", workload, load_accelerator(folder / "accelerator.yaml"), mapping)
    return folder / "again.h5"


@each
def test_its_header_runs_to_the_same_figures_and_events(
    reference: Reference, tmp_path: Path
) -> None:
    """If this fails and the change is meant, run `make golden` and say so in the changelog."""
    with (
        TraceReader.open(reference.path) as old,
        TraceReader.open(_rerun(reference, tmp_path)) as new,
    ):
        assert _kept(new.figures) == _kept(old.figures)
        assert new.totals == old.totals
        assert new.header.program == old.header.program
        assert new.header.sites == old.header.sites
        for start, end in ((0, WINDOW), (old.cycles - WINDOW, old.cycles)):
            before, after = (one.decode(one.events(max(0, start), end)) for one in (old, new))
            assert after == before


def _kept(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name not in FREE}


def _documented_columns() -> dict[str, str]:
    """Read the table of columns in the schema: name -> type."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for names, kind in re.findall(r"^\| (`.*`) \| ([ui]\d) \|", text, re.MULTILINE):
        found |= dict.fromkeys(re.findall(r"`(\w+)`", names), kind)
    return found


@each
def test_plain_h5py_reads_what_the_schema_documents(reference: Reference) -> None:
    with h5py.File(reference.path) as file:
        assert file.attrs["format"] == "simaccel trace"
        assert file.attrs["schema_version"] == SCHEMA_VERSION
        assert bool(file.attrs["complete"])
        assert set(file) == {"events", "segments", "tables", "sites", "header", "totals", "index"}
        columns = {name: column.dtype.str[1:] for name, column in file["events"].items()}
        assert columns == _documented_columns()
        assert len({len(column) for column in file["events"].values()}) == 1
        program = file["header/program"].asstr()[0]
        assert program.startswith("program ")
        assert json.loads(bytes(file["header/figures"][:]))["cycles"] == file.attrs["cycles"]
        assert set(file["events/site"][:]) <= {0, *file["sites/site"][:]}


@each
def test_rows_and_segments_give_the_totals_without_the_reader(reference: Reference) -> None:
    with h5py.File(reference.path) as file:
        rows = {name: column[:] for name, column in file["events"].items()}
        length = cycles_of_rows(file)
        engines, totals = file["totals/engine"][:], file["totals/cycles"][:]
        cycles = int(file.attrs["cycles"])
    assert (length > 0).all()
    assert (totals.sum(axis=1) == cycles).all()
    for engine, total in zip(engines, totals, strict=True):
        mine = rows["lane"] == engine
        sums = np.bincount(rows["cause"][mine], length[mine], minlength=len(total))
        np.testing.assert_array_equal(sums.astype(np.int64), total)


@pytest.mark.parametrize("name", ["toy_gemm_naive", "toy_attention_flat"])
def test_rows_of_an_engine_tile_the_run(name: str) -> None:
    """The toys have no segments, so the stored rows are the run."""
    with h5py.File(FOLDER / f"{name}.h5") as file:
        rows = {key: column[:] for key, column in file["events"].items()}
        assert len(file["segments/first_row"]) == 0
        for engine in file["totals/engine"][:]:
            starts, ends = (rows[key][rows["lane"] == engine] for key in ("start", "end"))
            assert starts[0] == 0
            np.testing.assert_array_equal(starts[1:], ends[:-1])
            assert ends[-1] == file.attrs["cycles"]


def times_of_rows(file: h5py.File) -> npt.NDArray[np.int64]:
    """How often each row happens: once, and again for each segment around it."""
    times = np.ones(len(file["events/start"]), dtype=np.int64)
    fields = ("first_row", "end_row", "repeats")
    for first, end, repeats in zip(*(file["segments"][f][:] for f in fields), strict=True):
        times[first:end] *= repeats + 1
    return times


def cycles_of_rows(file: h5py.File) -> npt.NDArray[np.int64]:
    """The cycles of each row in all the times that it happens."""
    length: npt.NDArray[np.int64] = file["events/end"][:] - file["events/start"][:]
    return length * times_of_rows(file)
