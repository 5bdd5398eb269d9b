"""The account of what a file says: shares by hand, and what is refused."""

from dataclasses import replace

import pytest

from simaccel.errors import InputError
from simaccel.files.accounting import MOST_LISTED, AccountEntry, FileAccount, account_keys


def _account(*left: AccountEntry) -> FileAccount:
    done = AccountEntry("a", "taken", "conv", "Conv", 990)
    return FileAccount(
        "net.onnx", (done, AccountEntry("b", "harmless", "addresses", "Reshape"), *left)
    )


def _left(macs: int | None, elements: int = 0) -> AccountEntry:
    return AccountEntry("c", "not taken", "no such kind", "Det", macs, elements)


def test_a_hundredth_of_the_macs_may_be_left_out() -> None:
    _account(_left(10)).require_modelled()  # 10 of 1,000
    with pytest.raises(InputError) as caught:
        _account(_left(11)).require_modelled()
    assert str(caught.value) == (
        "net.onnx: c (Det): got 'no such kind'; allowed: "
        "--allow-unmodelled, to leave it out: 1.1% of all MACs"
    )


def test_what_cannot_be_counted_is_refused_and_what_has_no_macs_is_not() -> None:
    _account(_left(0, 5)).require_modelled()
    account = _account(_left(0), _left(None))
    assert account.share_left_out() is None
    with pytest.raises(InputError) as caught:
        account.require_modelled()
    assert len(caught.value.faults) == 1  # what has no MACs is no fault
    assert caught.value.faults[0].allowed.endswith("to leave it out: work that can't be counted")


def test_lines_name_what_is_left_out_and_are_few() -> None:
    assert _account().lines() == []
    assert _account(_left(110)).lines() == [
        "net.onnx: 1 of 3 entries are not taken: 10.0% of all MACs",
        "  not taken: c (Det): no such kind, 110 MACs",
    ]
    many = _account(*[_left(1)] * (MOST_LISTED + 3)).lines()
    assert many[-1] == "  not taken: 3 more (--json lists all)"
    assert len(many) == MOST_LISTED + 2


def test_each_key_shows_up_once() -> None:
    found = account_keys(["R", "note", "Wstrid", 5], ["R", "Wstride"], {"note": "a remark"})
    assert [(one.name, one.how, one.why, one.macs) for one in found] == [
        ("R", "taken", "read", 0),
        ("note", "harmless", "a remark", 0),
        ("Wstrid", "not taken", "not read; did you mean 'Wstride'?", None),
        ("5", "not taken", "not read", None),
    ]


def test_who_allows_it_leaves_it_out() -> None:
    replace(_account(_left(None)), allowed=True).require_modelled()


def test_a_little_is_not_nothing() -> None:
    little = FileAccount("f", (AccountEntry("a", "taken", "conv", "Conv", 10**6), _left(3)))
    assert little.lines()[0].endswith("below 0.1% of all MACs")
    assert _account(_left(0)).lines()[0].endswith(": 0.0% of all MACs")
