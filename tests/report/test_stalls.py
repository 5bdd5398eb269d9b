"""Tables and JSON of the stalls of a hand-made run."""

import json

from rich.console import Console, RenderableType

from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.diagnosis.verdict import speedup
from simaccel.diagnosis.what_if import FreedRun, WhatIfResult
from simaccel.report.results import engines_table
from simaccel.report.stalls import overview_table, stalls_json, verdicts, waits_table, what_if_table
from simaccel.study.stall_analysis import Proposal, StallAnalysis
from simaccel.trace import Stall

WAIT = Stall("array", "A", "dram_bandwidth", "V", "ready", "dma_in1", 300)
FREE = Stall("dma_in1", "A", "array", "V", "free", "array", 90)
DRAIN = Stall("sfu", "A", "drain", "", "", "", 4)
L = OperatorDiagnosis(
    "L", 600, {"dma_in1": {"busy": 10, "array": 590}, "array": {"busy": 600}, "sfu": {}}
)
A = OperatorDiagnosis(
    "A",
    400,
    {
        "dma_in1": {"busy": 310, "array": 90},
        "array": {"busy": 100, "dram_bandwidth": 300},
        "sfu": {"idle": 396, "drain": 4},
    },
    (WAIT, FREE, DRAIN),
)
RUN = OperatorDiagnosis(
    TOTAL,
    1000,
    {
        "dma_in1": {"busy": 320, "array": 680},
        "array": {"busy": 700, "dram_bandwidth": 300},
        "sfu": {"idle": 996, "drain": 4},
    },
    (WAIT, FREE, DRAIN),
)
FOUND = Diagnosis(0, 1000, RUN, (L, A))
WHAT_IF = WhatIfResult(
    FreedRun((), 1000, {"L": 600, "A": 400}),
    (
        FreedRun(("dram_bandwidth",), 720, {"L": 610, "A": 110}),
        FreedRun(("array", "noc"), 400, {"L": 0, "A": 400}),
    ),
)


def _lines(table: RenderableType | None) -> list[str]:
    assert table is not None
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_overview_has_a_row_for_each_operator() -> None:
    rows = [line.split() for line in _lines(overview_table(FOUND)) if line]
    assert rows[3:] == [
        ["L", "600", "60.0%", "array", "100%", "array", "100.0%"],
        ["A", "400", "40.0%", "dma_in1", "78%", "array", "25.0%", "75.0%"],
        ["total", "1,000", "100.0%", "array", "70%", "array", "70.0%", "30.0%"],
    ]


def test_the_longest_operators_have_rows_and_the_others_share_one() -> None:
    """Of 10, 20, ... 80 cycles, 360 in all, the three longest have 210."""
    parts = tuple(
        OperatorDiagnosis(f"op{n}", 10 * n, {"array": {"busy": 10 * n}}) for n in range(1, 9)
    )
    total = OperatorDiagnosis(TOTAL, 360, {"array": {"busy": 360}})
    found = _lines(overview_table(Diagnosis(0, 360, total, parts), 3))
    rows = [line.split() for line in found if line][2:]
    assert [row[:3] for row in rows[:3]] == [
        ["op8", "80", "22.2%"],
        ["op7", "70", "19.4%"],
        ["op6", "60", "16.7%"],
    ]
    assert rows[3] == ["5", "others", "150", "41.7%"]
    assert rows[4][:3] == ["total", "360", "100.0%"]


def test_the_run_comes_first_where_no_operator_stands_for_it() -> None:
    """Ten equal operators, each a tenth; five of them are named."""
    parts = tuple(
        OperatorDiagnosis(f"op{n}", 100, {"array": {"busy": 10, "dram_bandwidth": 90}, "sfu": {}})
        for n in range(10)
    )
    engines = {"array": {"busy": 100, "dram_bandwidth": 900}, "sfu": {"busy": 500, "idle": 500}}
    total = OperatorDiagnosis(TOTAL, 1000, engines)
    kinds = {part.name: "fused GEMM" for part in parts}
    first, second, third, *_ = verdicts(
        StallAnalysis(Diagnosis(0, 1000, total, parts), kinds=kinds), total
    )
    assert first.startswith("The run waits 90% of its time")
    assert second == "100% of the cycles: 10 fused GEMMs, waiting for DRAM bandwidth."
    assert third.startswith("op0 costs most, 10% of the cycles.")
    assert third.endswith("The same holds for op1, op2, op3, op4, op5 and 4 others.")


def test_engines_have_cycles_and_percent_of_every_cause() -> None:
    rows = [line.split() for line in _lines(engines_table(A.engines, 400, "A", counts=True))]
    assert rows == [
        ["DRAM"],
        ["A", "busy", "bandwidth", "array", "drain", "idle"],
        rows[2],
        ["dma_in1", "310", "90"],
        ["77.5%", "22.5%"],
        ["array", "100", "300"],
        ["25.0%", "75.0%"],
        ["sfu", "4", "396"],
        ["1.0%", "99.0%"],
    ]


def test_waits_of_an_operator_are_those_of_all_engines() -> None:
    rows = [line.split() for line in _lines(waits_table(A))[2:]]
    assert rows == [
        ["array", "DRAM", "bandwidth", "V", "from", "dma_in1", "300", "75.0%"],
        ["dma_in1", "array", "a", "free", "slot", "of", "V,", "held", "by", "array", "90", "22.5%"],
        ["sfu", "drain", "the", "end", "of", "the", "operator", "4", "1.0%"],
    ]


def test_waits_of_the_run_are_those_of_the_compute_engine() -> None:
    rows = [line.split() for line in _lines(waits_table(RUN))[2:]]
    assert rows == [["array", "A", "DRAM", "bandwidth", "V", "from", "dma_in1", "300", "30.0%"]]
    assert waits_table(L) is None


def test_what_if_is_of_the_run_or_of_an_operator() -> None:
    def cells(operator: str) -> list[list[str]]:
        return [line.split("  ") for line in _lines(what_if_table(WHAT_IF, operator))[2:]]

    run = [[cell.strip() for cell in row if cell.strip()] for row in cells(TOTAL)]
    assert [row[:4] for row in run] == [
        ["nothing", "1,000", "the run as it is"],
        ["DRAM bandwidth", "720", "280", "1.389 x"],
        ["array and NoC", "400", "600", "2.500 x"],
    ]
    one = [[cell.strip() for cell in row if cell.strip()] for row in cells("L")]
    assert [row[:4] for row in one] == [
        ["nothing", "600", "the run as it is"],
        ["DRAM bandwidth", "610", "-10", "0.984 x"],
        ["array and NoC", "0", "600", "-"],
    ]


def test_a_speedup_needs_cycles() -> None:
    dram, array = WHAT_IF.freed
    assert speedup(WHAT_IF, dram, "A") == 400 / 110
    assert speedup(WHAT_IF, array, "L") is None
    assert speedup(WHAT_IF, dram, "softmax") is None
    assert speedup(None, dram, "A") is None


def test_verdicts_group_what_is_alike() -> None:
    again = OperatorDiagnosis("B", 300, A.engines, A.waits)
    engines = {"array": {"busy": 700, "dram_bandwidth": 600}, "sfu": {"idle": 1292, "drain": 8}}
    total = OperatorDiagnosis(TOTAL, 1300, engines)
    found = Diagnosis(0, 1300, total, (L, A, again))
    said = list(verdicts(StallAnalysis(found), total))
    assert [text.split(":")[0].partition(" (mostly")[0] for text in said] == [
        "L costs most, 46% of the cycles. L is bound by the array, busy 100% of the time.",
        "The run waits 46% of its time",
        "A waits 75% of its time for V tiles",
    ]
    assert said[2].endswith("The same holds for B.")
    assert list(verdicts(StallAnalysis(found), A)) == [
        "A waits 75% of its time for V tiles: its transfers queue for DRAM bandwidth."
    ]


def test_the_run_is_idle_where_its_compute_engine_is() -> None:
    softmax = OperatorDiagnosis("softmax", 500, {"array": {"idle": 500}, "sfu": {"busy": 500}})
    total = OperatorDiagnosis(
        TOTAL, 1100, {"array": {"busy": 600, "idle": 500}, "sfu": {"busy": 500}}
    )
    found = Diagnosis(0, 1100, total, (L, softmax))
    _, second, *_ = verdicts(StallAnalysis(found), total)
    assert second == "The run: the array is busy 55%, idle 45% (in softmax)."


def test_the_operator_that_costs_most_comes_first_with_what_would_help() -> None:
    longer = OperatorDiagnosis("A", 700, {"array": {"busy": 100, "dram_bandwidth": 600}, "sfu": {}})
    again = OperatorDiagnosis("B", 650, {"array": {"busy": 50, "dram_bandwidth": 600}, "sfu": {}})
    total = OperatorDiagnosis(
        TOTAL, 1950, {"array": {"busy": 750, "dram_bandwidth": 1200}, "sfu": {}}
    )
    found = Diagnosis(0, 1950, total, (L, longer, again))
    proposal = Proposal("flash", ("L", "A"), 4096, 1300, 1024, 650)
    lead, second, *rest = verdicts(StallAnalysis(found, proposal=proposal), total)
    assert lead == (
        "A costs most, 36% of the cycles. A waits 86% of its time: its transfers queue for DRAM "
        "bandwidth. The same holds for B. Dataflow flash moves 1.00 KiB with DRAM for L, A "
        "instead of 4.00 KiB, alone in 650 instead of 1,300 cycles (2.00 x)."
    )
    assert second.startswith("The run waits 62% of its time")
    assert not rest
    document = stalls_json(StallAnalysis(found, proposal=proposal), None)
    assert document["costliest"] == "A"
    assert document["proposal"]["proposed_bytes"] == 1024


def test_one_operator_is_told_once() -> None:
    found = Diagnosis(0, 400, A, (A,))
    assert len(list(verdicts(StallAnalysis(found), found.total))) == 1


def test_json_holds_all_of_it() -> None:
    document = json.loads(json.dumps(stalls_json(StallAnalysis(FOUND, None, WHAT_IF), None)))
    assert (document["from"], document["to"], document["cycles"]) == (0, 1000, 1000)
    assert [one["name"] for one in document["operators"]] == ["L", "A"]
    assert document["operators"][1]["engines"]["array"] == {
        "busy": 100,
        "idle": 0,
        "stalls": {"dram_bandwidth": 300},
    }
    assert document["operators"][1]["waits"][0] == {
        "engine": "array",
        "operator": "A",
        "cause": "dram_bandwidth",
        "tile": "V",
        "kind": "ready",
        "waits_for": "dma_in1",
        "cycles": 300,
    }
    assert document["operators"][1]["critical"] == "dma_in1"
    assert document["operators"][1]["compute"] == "array"
    assert document["what_if"]["cycles"] == 1000
    assert document["what_if"]["freed"][0] == {
        "resources": ["dram_bandwidth"],
        "cycles": 720,
        "speedup": 1000 / 720,
        "operators": {"L": 610, "A": 110},
    }
    only = stalls_json(StallAnalysis(FOUND), "A")
    assert [one["name"] for one in only["operators"]] == ["A"]
    assert only["what_if"] is None
