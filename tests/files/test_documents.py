"""YAML has limits, its numbers are what they look like; the account of what a file says."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import Fault, InputError, printable
from simaccel.files.accounting import MOST_LISTED, AccountEntry, FileAccount, account_keys
from simaccel.files.documents import parse_document, read_text
from simaccel.files.limits import MAX_BYTES, MAX_NODES
from simaccel.files.schema import read_yaml
from tests.refusals import faults_of, refusal_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:30:00", "1:30:00"),
        ("1:30.5", "1:30.5"),
        ("no", "no"),
        ("On", "On"),
        ("y", "y"),
        ("010", "010"),
        ("0x1F", "0x1F"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("2020-01-01", "2020-01-01"),
        ("=", "="),
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("0", 0),
        ("1.5", 1.5),
        ("1.0e-3", 0.001),
        ("-.5", "-.5"),
        (".inf", float("inf")),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("{a: &x {k: 1}, b: {<<: *x, l: 2}}", {"a": {"k": 1}, "b": {"k": 1, "l": 2}}),
        ("{a: &x {k: 1}, b: {k: 3, <<: *x}}", {"a": {"k": 1}, "b": {"k": 3}}),
    ],
)
def test_values_are_what_they_look_like(text: str, value: object) -> None:
    found = parse_document(text)
    assert (found, type(found)) == (value, type(value))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:  # noqa: ANN401 - plain data
    assert parse_document(yaml.safe_dump(value)) == value


WORDS = ("no", "1:30", "1e5", "0o7", "08", "1_0", "-.5", "12:30:45.5", "2001-12-14", "~", "<<")


@pytest.mark.parametrize("word", WORDS)
def test_words_that_look_like_values_are_written_so_that_they_stay_words(word: str) -> None:
    assert parse_document(yaml.safe_dump({word: [word]})) == {word: [word]}


def _refusal(path: Path) -> Fault:
    (fault,) = faults_of(read_yaml, path, "a mapping")
    assert fault.file == str(path)
    return fault


def test_limits_are_stated(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("#" * (MAX_BYTES + 1))
    assert (_refusal(file).value, _refusal(file).allowed) == (
        f"{MAX_BYTES + 1} bytes",
        f"at most {MAX_BYTES} bytes",
    )
    file.write_text("#" * MAX_BYTES)
    assert _refusal(file).allowed == "a mapping"
    file.write_text("a: [" + "1," * MAX_NODES + "]")
    assert _refusal(file).value == f"more than {MAX_NODES} values"
    file.write_text("[" * 101 + "]" * 101)
    assert _refusal(file).value == "lists and mappings nested deeper than 100"
    file.write_text("a: &a {b: *a}")
    assert _refusal(file).value == "a value that contains itself"


def test_a_device_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got 'a FIFO, socket or device'; allowed: a readable CSV"):
        read_text(Path("/dev/null"), "CSV")
    (tmp_path / "latin.csv").write_bytes(b"\xe4")
    with pytest.raises(InputError, match="UTF-8 text"):
        read_text(tmp_path / "latin.csv", "CSV")


def test_messages_have_no_control_characters() -> None:
    fault = Fault("a\x1b[2J.yaml", "b\n\u202ec", "d\x07", "e\x9b")
    assert str(fault) == r"a\x1b[2J.yaml: b\n\u202ec: got 'd\x07'; allowed: e\x9b"
    assert printable("\udcff\N{GREEK SMALL LETTER MU}") == "\\udcff\N{GREEK SMALL LETTER MU}"


def _account(*left: AccountEntry) -> FileAccount:
    done = AccountEntry("a", "taken", "conv", "Conv", 990)
    return FileAccount(
        "net.onnx", (done, AccountEntry("b", "harmless", "addresses", "Reshape"), *left)
    )


def _left(macs: int | None, elements: int = 0) -> AccountEntry:
    return AccountEntry("c", "not taken", "no such kind", "Det", macs, elements)


def test_a_hundredth_of_the_macs_may_be_left_out() -> None:
    _account(_left(10)).require_modelled()  # 10 of 1,000
    said = refusal_of(_account(_left(11)).require_modelled)
    assert said == (
        "net.onnx: c (Det): got 'no such kind'; allowed: "
        "--allow-unmodelled, to leave it out: 1.1% of all MACs"
    )


def test_what_cannot_be_counted_is_refused_and_what_has_no_macs_is_not() -> None:
    _account(_left(0, 5)).require_modelled()
    account = _account(_left(0), _left(None))
    assert account.share_left_out() is None
    found = faults_of(account.require_modelled)
    assert len(found) == 1  # what has no MACs is no fault
    assert found[0].allowed.endswith("to leave it out: work that can't be counted")


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
