"""A frame of a trace has each event as a row; the file says units, meaning, and what repeats."""

import shutil
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.make_traces import FOLDER, REFERENCES
from simaccel.trace import TraceError, TraceReader
from simaccel.units import Cause
from tests.draws import DRAWS
from tests.trace.scripts import SCRIPTS, SITES, Script, totals, unrolled, written

ENGINE = (
    *("engine", "operator", "command", "site", "cause", "tile", "kind", "waits_for"),
    *("start", "end", "cycles"),
)


def _sums(frame: pd.DataFrame, *by: str) -> dict[tuple[str, ...], int]:
    summed = frame.groupby(list(by), observed=True)["cycles"].sum()
    return {(key if isinstance(key, tuple) else (key,)): int(n) for key, n in summed.items()}


@pytest.mark.parametrize("name", [one.name for one in REFERENCES])
def test_sums_over_a_frame_are_those_that_the_machine_counted(name: str) -> None:
    with TraceReader.open(FOLDER / f"{name}.h5") as trace:
        frame = trace.frame()
        assert tuple(frame.columns) == ENGINE
        assert (frame["cycles"] == frame["end"] - frame["start"]).all()
        counted = {
            (engine, cause): cycles
            for engine, total in trace.totals.items()
            for cause, cycles in {"busy": total.busy, "idle": total.idle, **total.stalls}.items()
            if cycles
        }
        assert _sums(frame, "engine", "cause") == counted
        by = ("engine", "operator", "cause", "tile", "kind", "waits_for")
        assert _sums(frame, *by) == {
            tuple(getattr(row, name) for name in by): row.cycles for row in trace.account(by)
        }
        served = trace.frame(lane="channel").groupby("channel", observed=True)["served"].sum()
        assert {lane: n for lane, n in served.items() if n} == {
            lane: n for lane, n in trace.served.items() if n
        }


def test_the_busy_cycles_of_the_long_reference_are_the_products_of_its_heads() -> None:
    """768 heads: 2 x 500 x 500 x 64 MACs each, 32 x 32 PEs: 24,576,000 cycles with remainders.

    Q.K: 500 x 64 weights in 16 x 2 folds of 500 rows; S.V: 16 x 2 folds of 500 rows.
    """
    with TraceReader.open(FOLDER / "edge_bert_flat.h5") as trace:
        frame = trace.frame()
    busy = frame[(frame["engine"] == "array") & (frame["cause"] == "busy")]
    assert busy["cycles"].sum() == 768 * 2 * 16 * 2 * 500
    with h5py.File(FOLDER / "edge_bert_flat.h5") as file:
        array = file["tables/lanes"].asstr()[:].tolist().index("array")
        stored = (file["events/lane"][:] == array) & (file["events/cause"][:] == int(Cause.BUSY))
        assert stored.sum() < len(busy) // 10


@settings(max_examples=3 * DRAWS)  # each of them writes files
@given(SCRIPTS, st.data())
def test_cycles_of_any_window_are_those_of_the_unrolled_run(
    script: Script, data: st.DataObject
) -> None:
    with written(script, 7) as trace:
        start = data.draw(st.integers(0, trace.cycles - 1))
        end = data.draw(st.integers(start + 1, trace.cycles))
        expected: Counter[tuple[str, ...]] = Counter()
        for engine, first, after, (cause, _, site) in (
            i for e in unrolled(script).values() for i in e
        ):
            operator = SITES[site].operator if site in SITES else ""
            within = min(after, end) - max(first, start)
            expected[engine, cause.name.lower(), operator] += max(within, 0)
        assert _sums(trace.frame(start, end), "engine", "cause", "operator") == +expected
        busy = {(engine,): total.busy for engine, total in totals(script).items() if total.busy}
        whole = trace.frame()
        assert _sums(whole[whole["cause"] == "busy"], "engine") == busy


def test_lanes_have_the_columns_of_their_kind() -> None:
    with TraceReader.open(FOLDER / "toy_gemm_naive.h5") as trace:
        assert tuple(trace.frame(lane="array")) == ENGINE
        assert set(trace.frame(lane="array")["engine"]) == {"array"}
        assert list(trace.frame(lane="dram0")) == [
            *("channel", "cause", "served", "start", "end", "cycles")
        ]
        tiles = trace.frame(lane="tile")
        assert list(tiles) == ["tile", "held", "start", "end", "cycles"]
        held = (tiles["held"] * tiles["cycles"]).groupby(tiles["tile"], observed=True).sum()
        (mean,) = trace.occupancy(bins=1).mean_bytes.T
        expected = dict(zip(trace.tiles, mean * trace.cycles, strict=True))
        assert held.to_dict() == pytest.approx(expected)
        both = trace.frame(lane=["array", "tile"])
        assert {"lane", "lane_kind", "held"} <= {*both}
        assert set(both["lane_kind"]) == {"engine", "tile"}


def test_more_rows_than_wanted_are_counted_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with TraceReader.open(FOLDER / "edge_bert_flat.h5") as trace:
        n_rows = sum(trace.track(lane).count(0, trace.cycles) for lane in trace.engines)
        assert len(trace.frame(at_most=n_rows)) <= n_rows
        monkeypatch.setattr("simaccel.trace.questions.window", None)  # nothing is expanded
        message = f"{n_rows:,} rows in cycles 0 to .*, more than {n_rows - 1:,}; allowed: --from 0 "
        with pytest.raises(TraceError, match=message):
            trace.frame(at_most=n_rows - 1)
        for start, end in ((5, 5), ("x", 5), (0, 1.5)):
            problem = f"cycles {start} to {end}; allowed: a part of cycles 0 to"
            with pytest.raises(TraceError, match=problem):
                trace.frame(start, end)  # type: ignore[arg-type]


def test_a_name_that_stands_twice_is_one(tmp_path: Path) -> None:
    """Two numbers may have one text; a data frame's categories may not."""
    path = tmp_path / "t.h5"
    path.write_bytes((FOLDER / "toy_gemm_naive.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        file["sites/command"][:] = b"the same"
    with TraceReader.open(path) as trace:
        assert set(trace.frame()["command"]) <= {"the same", ""}


NAMES = ("edge_bert_flat", "toy_gemm_naive")


def _objects(file: h5py.File) -> dict[str, h5py.HLObject]:
    found: dict[str, h5py.HLObject] = {}
    file.visititems(found.__setitem__)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_group_and_dataset_says_what_it_is(name: str) -> None:
    with h5py.File(FOLDER / f"{name}.h5") as file:
        parts = _objects(file)
        assert len(parts) == 7 + 35
        for part, found in parts.items():
            assert found.attrs["meaning"], part
            once = part.startswith(("events", "index"))
            assert found.attrs["stored"] == ("once; repeats in segments" if once else "in full")
            assert isinstance(found, h5py.Group) or found.attrs["units"], part
        assert {parts[f"events/{name}"].attrs["units"] for name in ("start", "end", "served")} == {
            "cycles"
        }
        assert parts["events/held"].attrs["units"] == "bytes"
        for word in ("stored once", "repeats + 1", "first_row", "end_row", "totals", "frame()"):
            assert word in file.attrs["read_me"]


@pytest.mark.parametrize("name", NAMES)
def test_traces_without_these_attributes_open(name: str, tmp_path: Path) -> None:
    """They were written before."""
    path = Path(shutil.copy(FOLDER / f"{name}.h5", tmp_path / "old.h5"))
    with h5py.File(path, "r+") as file:
        del file.attrs["read_me"]
        for found in _objects(file).values():
            for attribute in list(found.attrs):
                del found.attrs[attribute]
    with TraceReader.open(path) as old, TraceReader.open(FOLDER / f"{name}.h5") as new:
        old.check()
        assert old.totals == new.totals
        assert np.array_equal(old.events(0, 20_000), new.events(0, 20_000))
