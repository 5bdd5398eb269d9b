"""Tables and the sentence of the difference of two runs."""

import json

from rich.console import Console
from rich.table import Table

from simaccel.diagnosis.difference import CycleDifference, Difference, FieldDifference
from simaccel.report.trace_diff import causes_table, difference_json, difference_lines, groups_table

FOUND = Difference(
    engine="array",
    a=1000,
    b=800,
    groups=(
        CycleDifference("L+softmax+A", "", 600, 390, ("L", "softmax", "A"), ("L+softmax+A",)),
        CycleDifference("Q", "", 400, 410, ("Q",), ("Q",)),
    ),
    shares=(
        CycleDifference("L+softmax+A", "idle", 200, 0),
        CycleDifference("L+softmax+A", "sfu", 0, 60),
        CycleDifference("L+softmax+A", "dram_bandwidth", 100, 30),
        CycleDifference("Q", "dram_latency", 0, 10),
        CycleDifference("Q", "busy", 400, 400),
        CycleDifference("L+softmax+A", "busy", 300, 300),
    ),
    fields=(FieldDifference("dataflow", "flex", "flat"),),
)


def _rows(table: Table) -> list[list[str]]:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()[2:] if line.strip()]


def test_operators_add_up_to_the_total() -> None:
    assert _rows(groups_table(FOUND)) == [
        ["L+softmax+A", "600", "390", "-210", "-21.00%", "L,", "softmax,", "A"],
        ["Q", "400", "410", "+10", "+1.00%"],
        ["total", "1,000", "800", "-200", "-20.00%"],
    ]


def test_where_no_operator_is_fused_otherwise_there_is_no_column_for_it() -> None:
    same = Difference("array", 5, 4, (CycleDifference("Q", "", 5, 4, ("Q",), ("Q",)),), (), ())
    assert [column.header for column in groups_table(same).columns][-1] == "of A"
    apart = Difference("array", 5, 4, (CycleDifference("Q", "", 5, 0, ("Q",), ()),), (), ())
    assert _rows(groups_table(apart))[0][-1] == "nothing"


def test_causes_add_up_to_the_total() -> None:
    assert _rows(causes_table(FOUND)) == [
        ["L+softmax+A", "idle", "200", "0", "-200", "-20.00%"],
        ["L+softmax+A", "SFU", "0", "60", "+60", "+6.00%"],
        ["L+softmax+A", "DRAM", "bandwidth", "100", "30", "-70", "-7.00%"],
        ["Q", "DRAM", "latency", "0", "10", "+10", "+1.00%"],
        ["2", "unchanged", "700", "700", "0"],
        ["total", "1,000", "800", "-200", "-20.00%"],
    ]


def test_many_causes_are_summed_in_a_last_row() -> None:
    shares = tuple(CycleDifference(f"op{n}", "busy", 100 - n, 0) for n in range(30))
    whole = sum(one.a for one in shares)
    rows = _rows(causes_table(Difference("array", whole, 0, (), shares, ())))
    rest = sum(100 - n for n in range(20, 30))
    assert rows[-2][:5] == ["10", "others", f"{rest:,}", "0", f"-{rest:,}"]
    assert len(rows) == 22


def _said(found: Difference) -> list[str]:
    return list(difference_lines(found))


def test_the_sentence_names_causes_and_operators() -> None:
    assert _said(FOUND) == [
        "dataflow: flex in A, flat in B",
        (
            "B takes 200 cycles fewer than A (1.250 x as fast). In all, the array is idle 200 "
            "cycles fewer, waits 70 cycles fewer for DRAM bandwidth, waits 60 cycles more for the "
            "SFU. It is in L+softmax+A (105%)."
        ),
    ]


def test_a_slower_run_is_told_as_such() -> None:
    group = CycleDifference("Q", "", 400, 500, ("Q",), ("Q",))
    shares = (CycleDifference("Q", "busy", 400, 460), CycleDifference("Q", "drain", 0, 40))
    assert _said(Difference("array", 400, 500, (group,), shares, ())) == [
        (
            "B takes 100 cycles more than A (0.800 x as fast). In all, the array works 60 cycles "
            "more, waits 40 cycles more for the other engines to end."
        )
    ]


def test_equal_runs() -> None:
    group = CycleDifference("Q", "", 5, 5, ("Q",), ("Q",))
    alike = Difference("array", 5, 5, (group,), (CycleDifference("Q", "busy", 5, 5),), ())
    assert _said(alike) == ["A and B take the same cycles, spent alike."]
    shares = (CycleDifference("Q", "busy", 5, 3), CycleDifference("Q", "noc", 0, 2))
    assert _said(Difference("array", 5, 5, (group,), shares, ())) == [
        (
            "A and B take the same cycles, spent otherwise. In all, the array works 2 cycles "
            "fewer, waits 2 cycles more for the NoC."
        )
    ]


def test_few_fields_are_named() -> None:
    fields = tuple(FieldDifference(f"f{n}", "1", "2") for n in range(10))
    lines = _said(Difference("array", 5, 5, (), (), fields))
    assert lines[7:9] == ["f7: 1 in A, 2 in B", "and 2 fields more"]


def test_json_holds_all_of_it() -> None:
    document = json.loads(json.dumps(difference_json(FOUND)))
    assert document["difference"] == -200
    assert document["fields"] == [{"field": "dataflow", "a": "flex", "b": "flat"}]
    assert document["operators"][0] == {
        "name": "L+softmax+A",
        "operators_a": ["L", "softmax", "A"],
        "operators_b": ["L+softmax+A"],
        "cycles_a": 600,
        "cycles_b": 390,
        "difference": -210,
    }
    assert sum(one["difference"] for one in document["causes"]) == -200
