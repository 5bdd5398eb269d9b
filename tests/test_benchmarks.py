"""The benchmarks work and their tables can be written, on tiny sizes; no speed is tested."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks import (
    bounds,
    default_blocks,
    event_core,
    exactness,
    exploring,
    long_sequences,
    nests,
    processes,
    ruby,
    scalesim,
    search,
    search_times,
    tracing,
)
from benchmarks.measure import FailedError, Row, run_child
from benchmarks.run import BEGIN, BENCHMARKS, END, fill, main, tables
from simaccel.analytic.family import ints
from simaccel.importers.accelerators import load_accelerator
from tests.draws import DRAWS


def _event_core() -> list[Row]:
    tiny = {"m": 64, "repeats": 1, "handoffs": 100}
    return [event_core.rates(point | tiny) for point in event_core.points()]


def _long_sequences() -> list[Row]:
    point = {"hw": "edge", "seq_len": 16, "dataflow": "strips", "batch": 1}
    nothing = {**point, "dataflow": "flat-m", "seq_len": 2**18}
    seen_outside = {"process_cpu_seconds": 1.0, "peak_rss_bytes": 10**8}
    return [long_sequences.search_and_record(one) | seen_outside for one in (point, nothing)]


def _scalesim() -> list[Row]:
    point = {"side": 8, "m": 32, "k": 32, "n": 32, "repeats": 1}
    theirs = {
        "peak_rss_bytes": 1,
        "scalesim_cycles": 864,
        "scalesim_cpu_seconds": 1.0,
        "scalesim_peak_rss_bytes": 1,
    }
    return [point | scalesim.simulate(point) | theirs]


def _search() -> list[Row]:
    small: Row = {"sizes_per_rank": 2, "repeats": 1, "drawn": 500, "patience": 1, "seq_len": 8}
    small |= {"shape": {"m": 8, "k": 8, "n": 8}, "dataflow": "naive-m"}
    small |= {"model": "gpt2", "prompt": 4} if DRAWS > 1 else {}
    found = {point["kind"].partition(" ")[0]: point for point in search.points()}
    if DRAWS == 1:  # the search of a block without what a language model has beside
        found["scheduler"].pop("model")
    return [search.rates(point | small) for point in found.values()]


def _search_times() -> list[Row]:
    small: dict[str, Row] = {
        "drawn": {"number": 240},
        "bert": {"seq_len": 8, "batch": 1, "dataflow": "naive-m"},
        "language": {"model": "gpt2", "phase": "decode", "prompt": 4},
        "resnet50": {"layer": "fc1000"},
        "mapspace": {"network": "alexnet", "layer": "fc8", "patience": 1},
    }
    first = {point["kind"]: point for point in reversed(search_times.points())}
    rows = [search_times.search(first[kind] | other) for kind, other in small.items()]
    return [*rows, rows[0] | {"nothing_fits": "the buffer is too small"}]


def _processes() -> list[Row]:
    """Two commits: at the second the machine is half as fast, and the command takes 6 times."""
    with patch.object(processes, "STEPS", 1000):
        row = processes.measure({"command": "--version"})
    other = {"cpu_seconds": 12.0, "yard_seconds": 0.2, "peak_rss_bytes": 10**8, "cycles": 50}
    ran = {"cpu_seconds": 2.0, "yard_seconds": 0.1, "peak_rss_bytes": 2 * 10**8, "cycles": 100}
    slow = {"command": "run --workload resnet50", **other, "other": ran | {"cycles": 40}}
    return [row | {"other": row}, slow]


def _ruby() -> list[Row]:
    return [ruby.measure(point | {"patience": 1}) for point in ruby.points()[:4]]


def _nests() -> list[Row]:
    small = {"network": "alexnet", "layer": "fc8", "hw": "simba_like"}
    return [nests.run_network(point | small) for point in nests.points()[::2]]


def _default_blocks() -> list[Row]:
    point = {"hw": "tpu_v5e", "model": "gpt2", "phase": "decode", "tokens": 4, "repeats": 1}
    return [default_blocks.measure(point)]


def _exactness() -> list[Row]:
    return [exactness.compare({"hw": "edge", "dataflow": "strips", "batch": 1, "seq_len": 16})]


def _bounds() -> list[Row]:
    small = {"repeats": 1, "seq_len": 8}
    cheap = [point for point in bounds.points() if not point["imperfect"]]
    return [bounds.measure(point | small) for point in cheap]


def _exploring() -> list[Row]:
    seen_outside = {"cpu_seconds": 1.0, "peak_rss_bytes": 10**8}
    some = [point | {"jobs": 1, "count": 2} for point in exploring.points()]
    tiny = [point | ({"seconds": 0.01} if point["seconds"] else {}) for point in some]
    return [exploring.work(point) | seen_outside for point in tiny]


def _tracing() -> list[Row]:
    small = {"hw": "edge", "seq_len": 8, "dataflow": "naive-m"}
    look = {"what": "look", "full": False}
    cost = {"cpu_seconds": 1.0, "peak_rss_bytes": 10**8}
    looked = small | look | {"rows": 8, "commands": dict.fromkeys(tracing.LOOKS, cost)}
    with patch.multiple(tracing, LOOKS={"info": ()}, STARTS={"help": ("--help",)}, REPEATS=1):
        found = [tracing.record_both({"what": "record"} | small), tracing.look(small | look)]
        return [*found, tracing.start({"what": "start"}), looked]


_MEASURED: dict[str, Callable[[], list[Row]]] = {
    "event_core": _event_core,
    "long_sequences": _long_sequences,
    "scalesim": _scalesim,
    "search": _search,
    "search_times": _search_times,
    "processes": _processes,
    "default_blocks": _default_blocks,
    "ruby": _ruby,
    "nests": _nests,
    "exactness": _exactness,
    "bounds": _bounds,
    "exploring": _exploring,
    "tracing": _tracing,
}


class _Rows(dict[str, list[Row]]):
    """Those of a benchmark are measured when they are asked for."""

    def __missing__(self, name: str) -> list[Row]:
        self[name] = _MEASURED[name]()
        return self[name]


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Row]]:
    return _Rows()


def test_every_benchmark_is_tried_here() -> None:
    assert [benchmark.name for benchmark in BENCHMARKS] == list(_MEASURED)
    assert all(benchmark.points() for benchmark in BENCHMARKS)


@pytest.mark.long
def test_every_benchmark_has_a_table(rows: dict[str, list[Row]]) -> None:
    results = {name: {"where": "here", "rows": rows[name]} for name in _MEASURED}
    text = tables(json.loads(json.dumps(results)))
    for title in (
        *("Event core", "Long sequences", "Against SCALE-Sim", "Search", "Search times"),
        *("Processes", "Ruby", "Nests", "Exactness", "Bounds", "Exploring", "Traces"),
    ):
        assert f"## {title}\n\n`python -m benchmarks.run " in text
    assert text.count("|---|") >= len(rows)


def test_folds_wait_for_slow_ports_only(rows: dict[str, list[Row]]) -> None:
    fast, slow = rows["event_core"]
    assert fast["folds"] == slow["folds"] == 2 * 24 * 24 // 2
    assert fast["port_stall"] == 0.0
    assert slow["port_stall"] > 0.2


def test_what_does_not_fit_is_reported(rows: dict[str, list[Row]]) -> None:
    done, nothing = rows["long_sequences"]
    assert done["cycles"] > 0
    assert "needs" in nothing["nothing_fits"]
    assert "nothing fits: " in long_sequences.report([done, nothing])


def test_cycles_are_those_of_scalesim(rows: dict[str, list[Row]]) -> None:
    (row,) = rows["scalesim"]
    assert row["cycles"] == row["scalesim_cycles"]
    assert "Unequal: **0 of 1**" in scalesim.report([row])


def test_a_missing_scalesim_is_said() -> None:
    assert "Skipped: no package" in scalesim.report([{"skipped": "no package"}])


def test_every_work_of_the_search_has_candidates(rows: dict[str, list[Row]]) -> None:
    assert all(row["candidates"] > 0 and row["cpu_seconds"] > 0 for row in rows["search"])


@pytest.mark.long
def test_every_kind_of_search_is_timed(rows: dict[str, list[Row]]) -> None:
    *ran, nothing = rows["search_times"]
    assert [row["kind"] for row in ran] == list(search_times.KINDS)
    assert all(row["cpu_seconds"] > 0 and not row["nothing_fits"] for row in ran)
    assert "5 of the draw's" in search_times.report([*ran, nothing])


def test_a_search_that_was_timed_is_not_timed_again(tmp_path: Path) -> None:
    point: Row = {"kind": "bert", "seq_len": 8}
    kept = tmp_path / "search_times.json"
    with patch.object(search_times, "measure_here", return_value=({"cpu_seconds": 1}, None)):
        assert search_times.measure(point, kept) == {"cpu_seconds": 1}
    with patch.object(search_times, "measure_here", side_effect=AssertionError):
        assert search_times.measure(point, kept) == {"cpu_seconds": 1}


def test_processes_are_compared_by_the_yardstick(rows: dict[str, list[Row]]) -> None:
    """6 times the seconds on a machine half as fast are 3 times; 50 cycles for 40 are 1.25."""
    same, slow = rows["processes"]
    assert same["cpu_seconds"] > 0
    assert same["cycles"] is None
    text = processes.report([same, slow])
    assert "| 12.0 | 2.0 | 3.00 | 1.2500 | 0.20 | 100 | 50 | run --workload resnet50 |" in text
    assert "95% 6 **missed**, worst 12 met" in text
    assert "below 8 CPU s and 250 MB: 0 of 1. More than 10% slower" in text
    assert "than at the other commit: 1." in text


def test_both_ways_to_give_a_grid_count_the_same() -> None:
    sizes = [search.tile_sizes(size, 5) for size in search.SHAPE.values()]
    edge = load_accelerator("edge")
    wide = search.figures(search.gemm_family([ints(one) for one in np.ix_(*sizes)]), edge)
    grid = [np.ravel(one) for one in np.meshgrid(*sizes, indexing="ij")]
    flat = search.figures(search.gemm_family(grid), edge)
    for one, other in zip(wide, flat, strict=True):
        assert one.tolist() == other.tolist()


def test_a_race_ends_or_says_that_it_doesn_t(rows: dict[str, list[Row]]) -> None:
    races = [row for row in rows["ruby"] if row["kind"] == "race"]
    assert all(row["ours"] > 0 and row["timeloop"] > 0 for row in races)
    unreached = races[0] | {"cpu_seconds_until_as_good": None}
    assert "not reached" in ruby.report([*rows["ruby"], unreached])


def test_every_run_of_timeloop_has_a_race() -> None:
    """Two of them: with the other objective, and with columns that a constraint fixes."""
    names = [point["problem"] for point in ruby.points() if point["kind"] == "race"]
    assert len(names) == len(set(names)) > 20
    rows = [
        ruby.measure({"kind": "race", "problem": name, "patience": 1})
        for name in ("eye_ruby_del", "eyeX_Q14_M1")
    ]
    assert [row["objective"] for row in rows] == ["cycles", "edp"]
    assert rows[0]["timeloop"] == 583_200


def test_limits_take_cycles_and_no_macs(rows: dict[str, list[Row]]) -> None:
    free, limited = rows["nests"]
    assert free["macs"] == limited["macs"]
    assert free["cycles"] < limited["cycles"]
    assert free["events"] > 0


def test_fast_forward_is_exact(rows: dict[str, list[Row]]) -> None:
    (row,) = rows["exactness"]
    assert row["different"] == []
    assert row["figures"] > 100


def test_a_difference_is_named() -> None:
    row = {"cycles": 7, "engines": [{"busy": 3}], "events": 5, "wall_seconds": 0.5}
    assert exactness.figures(row) == {".cycles": 7, ".engines.0.busy": 3}


def test_a_child_is_measured() -> None:
    cost = run_child([sys.executable, "-c", "x = bytearray(50_000_000); print('done')"])
    assert cost.output == "done\n"
    assert 50_000_000 < cost.peak_rss_bytes < 100_000_000
    assert cost.cpu_seconds > 0


def test_a_child_that_fails_says_why() -> None:
    with pytest.raises(FailedError, match="ZeroDivisionError: division by zero"):
        run_child([sys.executable, "-c", "1 / 0"])
    with pytest.raises(FailedError, match="FileNotFoundError"):
        run_child(["no-such-program"])


def test_tables_go_between_the_markers() -> None:
    filled = f"a\n{BEGIN}\n\nnew\n\n{END}\nz\n"
    assert fill(f"a\n{BEGIN}\nold\n{END}\nz\n", "new") == filled
    assert fill(filled, "new") == filled


def test_an_unknown_benchmark_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no benchmark speed; there are event_core" in capsys.readouterr().err
