"""One experiment from Python: its figures are complete, add up, and are none that can't be."""

import json
from collections import Counter
from collections.abc import Mapping as Items
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from simaccel import build
from simaccel.errors import InputError
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.accounts import Wait
from simaccel.machine.walks import InstructionStreams
from simaccel.mapping.space import NotThisWorkloadError
from simaccel.mapping.tree import Fork, Keep, Mapping
from simaccel.program.program import DoesNotFitError, Program
from simaccel.schedulers import Options, make_mapping
from simaccel.study.experiment import ExperimentResult, energy_pj, moved_tree, result_json, simulate
from simaccel.units import Cause
from simaccel.workload import ModelDimensions, attention, gemm
from validation.bound.figures import impossible, ran_on

SMALL = ModelDimensions(hidden=6, heads=3, head_size=2, ff_size=7, layers=2)
TOY = load_accelerator("toy")


@pytest.fixture(scope="module", params=["naive-m", "flat-r"])
def result(request: pytest.FixtureRequest) -> ExperimentResult:
    return simulate(attention(SMALL, batch=2, seq_len=5, scope="model"), TOY, request.param)


@pytest.fixture(scope="module")
def figures(result: ExperimentResult) -> dict[str, Any]:
    return result_json(result)


def test_all_keys_of_the_json_object(figures: dict[str, Any]) -> None:
    assert set(figures) >= {
        *("cycles", "macs", "ideal_cycles", "utilisation", "bound", "work_cycles", "bytes"),
        *("engines", "energy_pj", "peak_buffer_bytes", "operators", "events", "wall_seconds"),
    }
    bound = {"cycles", "terms", "by", "waiting_cycles", "waiting_by_cause"}
    assert set(figures["bound"]) == bound
    assert set(figures["bytes"]) == {"dram", "buffer", "noc"}
    assert set(figures["bytes"]["dram"]) == set(figures["bytes"]["buffer"]) == {"read", "write"}
    assert set(figures["bytes"]["noc"]) == {"distribution", "collection"}
    for engine in figures["engines"].values():
        assert set(engine) == {"busy", "idle", "stalls"}


def test_the_object_is_plain_json(figures: dict[str, Any]) -> None:
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_operators_add_up(figures: dict[str, Any]) -> None:
    operators = figures["operators"]
    for name in ("cycles", "macs"):
        assert sum(one[name] for one in operators) == figures[name]
    assert figures["bound"]["cycles"] <= figures["cycles"]
    for name, work in figures["work_cycles"].items():
        assert sum(one["work_cycles"][name] for one in operators) == work
    for level, energy in figures["energy_pj"].items():
        assert sum(one["energy_pj"][level] for one in operators) == pytest.approx(energy)
    total: Counter[tuple[str, str, str]] = Counter()
    for one in operators:
        total.update(_flat(one["bytes"]))
    assert total == _flat(figures["bytes"])


def _flat(tree: dict[str, dict[str, dict[str, int]]]) -> Counter[tuple[str, str, str]]:
    return Counter(
        {
            (level, direction, tensor): n
            for level, directions in tree.items()
            for direction, tensors in directions.items()
            for tensor, n in tensors.items()
        }
    )


def test_ratios(figures: dict[str, Any], result: ExperimentResult) -> None:
    assert figures["ideal_cycles"] == -(-figures["macs"] // 16)
    assert figures["utilisation"] == pytest.approx(figures["macs"] / 16 / figures["cycles"])
    assert 0 < figures["utilisation"] <= 1
    for scope in (figures, *figures["operators"]):
        bound = scope["bound"]
        assert sum(bound["terms"].values()) == bound["cycles"]
        assert scope["work_cycles"][bound["by"]] == max(scope["work_cycles"].values())
    assert figures["seconds"] == figures["cycles"] / 10**9
    bound = figures["bound"]
    assert bound["cycles"] + bound["waiting_cycles"] == figures["cycles"]
    assert sum(bound["waiting_by_cause"].values()) == bound["waiting_cycles"] >= 0
    # groups of the toy overlap: the bound of one is the work of its busiest resource
    assert all("waiting_cycles" not in one["bound"] for one in figures["operators"])
    assert figures["peak_buffer_bytes"] <= figures["footprint_bytes"] <= 1024
    assert figures["events"] > 0
    assert figures["wall_seconds"] > 0
    assert figures["workload"] == result.workload.name


def test_where_groups_do_not_overlap_their_bounds_add_up() -> None:
    toy = load_accelerator("toy", ["compiler.overlap=false"])
    found = result_json(simulate(attention(SMALL, batch=2, seq_len=5), toy, "naive-m"))
    operators = found["operators"]
    assert sum(one["bound"]["cycles"] for one in operators) == found["bound"]["cycles"]
    for one in operators:
        bound = one["bound"]
        assert bound["cycles"] + bound["waiting_cycles"] == one["cycles"]
        assert sum(bound["waiting_by_cause"].values()) == bound["waiting_cycles"] >= 0


def test_energy_is_counts_times_prices(result: ExperimentResult, figures: dict[str, Any]) -> None:
    """Toy: 1 pJ a MAC and a NoC byte, 2 an SFU element, 5 a buffer byte, 100 a DRAM byte."""
    moved: Counter[str] = Counter()
    for (level, _), n_bytes in result.run.moved.items():
        moved[level] += n_bytes
    assert figures["energy_pj"] == {
        "mac": 1.0 * result.run.macs,
        "sfu": 2.0 * result.run.elements,
        "buffer": 5.0 * (moved["buffer_read"] + moved["buffer_write"]),
        "noc": 1.0 * (moved["noc_distribution"] + moved["noc_collection"]),
        "dram": 100.0 * (moved["dram_read"] + moved["dram_write"]),
    }
    assert energy_pj(result.run, TOY) == pytest.approx(result.prediction.energy_pj)


def test_a_mapping_runs_as_its_dataflow_does() -> None:
    workload = gemm(m=9, k=7, n=5)
    mapping = make_mapping(workload, TOY, "flex")
    by_name, by_mapping = simulate(workload, TOY, "flex"), simulate(workload, TOY, mapping)
    assert by_mapping.mapping == by_name.mapping
    assert by_mapping.run == by_name.run
    assert by_mapping.prediction == by_name.prediction


def test_flat_is_the_default() -> None:
    workload = attention(SMALL, batch=1, seq_len=2, scope="la")
    assert simulate(workload, TOY).mapping.dataflow == "flat"


def test_options_reach_the_scheduler() -> None:
    workload = attention(SMALL, batch=1, seq_len=4, scope="la")
    found = simulate(workload, TOY, "flat-r", options=Options(pipeline=True))
    (group,) = found.mapping.groups
    assert [node.ahead for node in group.tree if isinstance(node, Fork)] == [1]


def test_a_pipeline_with_one_intermediate_slot_is_refused() -> None:
    workload = attention(SMALL, batch=1, seq_len=8, scope="la")
    mapping = make_mapping(workload, TOY, "flat-r", Options(pipeline=True))
    (group,) = mapping.groups
    single = (replace(node, slots=1) if isinstance(node, Keep) else node for node in group.tree)
    broken = replace(group, tree=tuple(single))
    with pytest.raises(InputError, match=r"got 'fork ahead 1'; allowed: two slots of S"):
        simulate(workload, TOY, replace(mapping, body=(broken,)))


def test_fast_forward_changes_no_figure() -> None:
    workload = attention(SMALL, batch=4, seq_len=16, scope="la")
    fast, slow = (simulate(workload, TOY, "flat-r", fast_forward=on) for on in (True, False))
    skipped, full = result_json(fast), result_json(slow)
    for name in ("events", "wall_seconds"):
        del skipped[name], full[name]
    assert skipped == full


class _Listener:
    """Counts what it hears."""

    def __init__(self) -> None:
        self.heard = 0

    def interval(self, *_: str | int | Cause | Wait) -> None:
        self.heard += 1

    def note_service(self, *_: str | int | Sequence[int]) -> None:
        self.heard += 1

    def note_held(self, *_: str | int) -> None:
        self.heard += 1

    def announce(self, lanes: Items[str, str]) -> None:
        """Nothing is kept."""

    def checkpoint(self, now: int) -> None:
        """Nothing is kept."""

    def position(self) -> int:
        return self.heard

    def repeat(self, first_row: int, period_cycles: int, times: int) -> None:
        """Nothing is kept."""


def test_a_listener_is_asked_for_before_the_run() -> None:
    ear, seen = _Listener(), list[tuple[Mapping, Program]]()

    def listener(mapping: Mapping, program: Program, _: InstructionStreams) -> _Listener:
        assert ear.heard == 0
        seen.append((mapping, program))
        return ear

    found = simulate(gemm(m=9, k=7, n=5), TOY, "naive", listener=listener)
    assert seen == [(found.mapping, found.program)]
    assert ear.heard > 0


def test_progress_is_told() -> None:
    told: list[tuple[int, float]] = []
    simulate(
        gemm(m=200, k=40, n=40),
        TOY,
        "naive",
        progress=lambda cycle, part: told.append((cycle, part)),
        fast_forward=False,
    )
    assert told == sorted(told)
    assert all(0 <= part <= 1 for _, part in told)


def test_refusals() -> None:
    workload = gemm(m=9, k=7, n=5)
    with pytest.raises(InputError, match="did you mean 'naive'"):
        simulate(workload, TOY, "naiv")
    with pytest.raises(NotThisWorkloadError, match="the mapping is for workload gemm"):
        simulate(gemm(m=9, k=7, n=6), TOY, make_mapping(workload, TOY, "flex"))
    tight = load_accelerator("toy", ["buffer.capacity_bytes=64 B", "dram.interleave_bytes=16 B"])
    with pytest.raises(DoesNotFitError, match="the buffer has 64 B"):
        simulate(workload, tight, make_mapping(workload, TOY, "flex"))


def test_moved_tree_keeps_every_byte() -> None:
    moved = {
        ("dram_read", "A"): 1,
        ("dram_write", "C"): 2,
        ("buffer_read", "A"): 3,
        ("buffer_write", "C"): 4,
        ("noc_distribution", "A,B"): 5,
        ("noc_collection", "C"): 6,
    }
    assert moved_tree(moved) == {
        "dram": {"read": {"A": 1}, "write": {"C": 2}},
        "buffer": {"read": {"A": 3}, "write": {"C": 4}},
        "noc": {"distribution": {"A,B": 5}, "collection": {"C": 6}},
    }


@pytest.mark.parametrize(
    ("on", "name", "sizes"),
    [
        ("toy", "bert", {"seq_len": 8, "scope": "la"}),
        ("toy_linear", "bert", {"seq_len": 4, "scope": "la"}),
        ("mxu_128", "gpt2", {"phase": "decode", "kv_len": 4, "scope": "la"}),
    ],
)
def test_no_figure_is_impossible(on: str, name: str, sizes: dict[str, Any]) -> None:
    of, accelerator = build(name, **sizes), load_accelerator(on)
    ran = ran_on(of, accelerator)
    result = ran.rows[0].result
    assert result is not None, ran.rows[0].problem
    assert not list(impossible(of, accelerator, ran))
    # and what is impossible is seen
    result["bound"]["cycles"] = result["cycles"] + 1
    first = next(row for row in result["operators"] if row["macs"])
    first["busy_cycles"], first["utilisation"] = 1, 2.0
    seen = " ".join(impossible(of, accelerator, ran))
    for part in ("the run below", "utilisation 2.0 of", "1 cycles of", "above roof", "above array"):
        assert part in seen
