"""Constraints as texts: read, taken apart, and one over another."""

import pytest

from simaccel.errors import InputError
from simaccel.hardware.dataflow import LevelConstraint, merge_constraints, parse_constraints, single


def test_each_kind_of_constraint() -> None:
    texts = [
        "cols=Q, M",
        "rows.S=5",
        "rows.C = all",
        "pe.C<=4",
        "pe.order=M,C",
        "buffer.keep=output,input",
    ]
    found = parse_constraints(texts)
    assert found["cols"] == LevelConstraint(ranks=("Q", "M"))
    assert found["rows"].factors == {"S": 5, "C": "all"}
    assert found["pe"].most == {"C": 4}
    assert found["pe"].order == ("M", "C")
    assert found["buffer"].keep == ("input", "output")


def test_no_rank_and_any_rank() -> None:
    assert parse_constraints(["cols=none"])["cols"].ranks == ()
    lifted = merge_constraints(parse_constraints(["cols=Q"]), parse_constraints(["cols=any"]))
    assert lifted["cols"].ranks is None


@pytest.mark.parametrize(
    "text",
    [
        *("cols", "cols=", "=Q", "cols.Q=0", "cols.Q=-1", "cols.Q=x", "cols<=Q", "cols.Q<=all"),
        *("cols.Q=1.5", "cols=Q,,M", "buffer.keep=ifmap", "buffer.keep<=input", "pe.order<=M", ""),
    ],
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_constraints([text, "pe.M=2"])
    (fault,) = caught.value.faults
    assert (fault.file, fault.field, fault.value) == ("command line", "--constrain", text)
    assert fault.allowed.startswith("LEVEL=RANK,..., LEVEL.RANK=N|all")


def test_all_faults_at_once() -> None:
    with pytest.raises(InputError) as caught:
        parse_constraints(["a", "cols=Q", "b"])
    assert [fault.value for fault in caught.value.faults] == ["a", "b"]


def test_the_later_decides_where_it_says_something() -> None:
    below = parse_constraints(["cols=Q,M", "cols.M<=4", "cols.Q=7", "pe=C"])
    over = parse_constraints(["cols=M", "cols.Q=3", "rows=S"])
    both = merge_constraints(below, over)
    assert both["cols"].ranks == ("M",)
    assert both["cols"].factors == {"Q": 3}
    assert both["cols"].most == {"M": 4}
    assert both["pe"].ranks == ("C",)
    assert both["rows"].model_fields_set == {"ranks"}


def test_what_isn_t_said_lifts_nothing() -> None:
    over = parse_constraints(["cols.Q=3", "cols.M<=2"])
    assert merge_constraints(parse_constraints(["cols=Q,M"]), over)["cols"].ranks == ("Q", "M")


def test_other_levels_stay() -> None:
    both = merge_constraints(parse_constraints(["cols=Q"]), parse_constraints(["rows=S"]))
    assert both["cols"].ranks == ("Q",)
    assert both["rows"].ranks == ("S",)


def test_taken_apart_and_put_together_again() -> None:
    texts = ["cols=Q,M", "rows.S=5", "pe.C<=4", "pe.order=M,C", "buffer.keep=input"]
    whole = parse_constraints(texts)
    parts = single(whole)
    assert [text for text, _, _ in parts] == texts
    again = parse_constraints([text for text, _, _ in parts])
    assert again == whole
