import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import ABSENT, Fault, InputError
from simaccel.files.schema import leaf_fields
from simaccel.hardware import Accelerator, presets
from simaccel.hardware.presets import list_accelerators
from simaccel.importers.accelerators import load_accelerator
from simaccel.report.accelerators import accelerator_rows
from tests.data_files import data_beside
from tests.refusals import faults_of

DATA = data_beside(__file__)

TOY: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "hwconfigs" / "toy.yaml").read_text(encoding="utf-8")
)
Write = Callable[[str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str | bytes) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return to_file


def _changed(**changes: object) -> str:
    """Write the toy with some of its fields changed: ``array__rows=3``; ``...`` removes one."""
    raw = copy.deepcopy(TOY)
    for field, value in changes.items():
        *sections, key = field.split("__")
        place = raw
        for section in sections:
            place = place[section]
        if value is ...:
            del place[key]
        else:
            place[key] = value
    return yaml.safe_dump(raw)


def _faults(name: str | Path, *overrides: str) -> list[Fault]:
    with pytest.raises(InputError) as caught:
        load_accelerator(name, overrides)
    assert len(str(caught.value).splitlines()) == len(caught.value.faults)
    return list(caught.value.faults)


def _fault(name: str | Path, *overrides: str) -> Fault:
    [fault] = _faults(name, *overrides)
    return fault


def test_the_unchanged_copy_loads(write: Write) -> None:
    assert load_accelerator(write(_changed())) == load_accelerator("toy")


def test_an_unknown_name_gets_a_suggestion() -> None:
    fault = _fault("cluod")
    assert (fault.file, fault.field, fault.value) == ("accelerator", "name", "cluod")
    allowed = "an accelerator or the path of a .yaml or .cfg file"
    assert fault.allowed == f"{allowed}; did you mean 'cloud'?"


@pytest.mark.parametrize("name", ["", "zzz", "a\0b", "x" * 5000])
def test_an_odd_name_is_one_fault(name: str) -> None:
    assert "one of cloud, " in _fault(name).allowed


@pytest.mark.parametrize(
    "name", ["none/such", "none.yaml", "none.yml", "a\0.yaml", "x" * 5000 + ".yaml"]
)
def test_a_name_that_looks_like_a_path_is_a_file(name: str) -> None:
    fault = _fault(name)
    assert (fault.file, fault.field) == (name, "file")
    assert fault.allowed in ("an existing YAML file", "a readable YAML file")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    assert _fault(tmp_path).allowed == "a readable YAML file"


def test_not_yaml_names_the_line(write: Write) -> None:
    path = write("name: x\narray: [1, 2\nbuffer: 3\n")
    fault = _fault(path)
    assert (fault.file, fault.field, fault.allowed) == (str(path), "line 3", "YAML")


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe\xfa",
        b"\x80abc",
        b"name: \x00",
        b"[" * 100_000,
        b"--- 1\n--- 2",
        b"{[1]: 2}",
        b"a: !!python/object:os.system x",
        b"a: *nowhere",
        b"a: " + b"9" * 5000,
    ],
)
def test_a_file_that_cannot_be_read_is_one_fault(write: Write, text: bytes) -> None:
    assert _fault(write(text)).allowed in ("YAML", "UTF-8 text")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "nothing"),
        ("# only a comment", "nothing"),
        ("- 1\n- 2", "[1, 2]"),
        ("just text", "'just text'"),
    ],
)
def test_the_top_level_is_a_mapping(write: Write, text: str, shown: str) -> None:
    fault = _fault(write(text))
    assert fault.field == "file"
    assert repr(fault.value) == shown
    assert fault.allowed.startswith("a mapping with source, name, description, clock_hz")


def test_duplicate_keys_name_their_line(write: Write) -> None:
    path = write(_changed() + "name: toy\narray: {rows: 4, cols: 4, rows: 4}\n")
    faults = {f.field: str(f) for f in _faults(path)}
    assert set(faults) == {"name", "array", "array.rows"}
    line = len(_changed().splitlines()) + 1
    assert faults["name"].endswith(f": name: got again on line {line}; allowed: each key once")


PICOJOULES = "a number of pJ >= 0 and <= 1000000000"
NO_NUMBERS = [("energy__mac_pj", value, PICOJOULES) for value in (float("nan"), 10**400)]


@pytest.mark.parametrize(("field", "value", "allowed"), [*DATA["wrong values"], *NO_NUMBERS])
def test_a_wrong_value_says_what_is_allowed(
    write: Write, field: str, value: object, allowed: str
) -> None:
    absent = value == "(left out)"
    path = write(_changed(**{field: ... if absent else value}))
    fault = _fault(path)
    dotted = "dma.in_queues" if field == "dma" else field.replace("__", ".")
    assert (fault.file, fault.field, fault.allowed) == (str(path), dotted, allowed)
    if absent:
        assert fault.value is ABSENT


@pytest.mark.parametrize(
    ("field", "suggestion"),
    [
        ("buffer__capacity", "did you mean 'capacity_bytes'?"),
        ("bufer", "did you mean 'buffer'?"),
        ("noc__distribution__topologie", "did you mean 'topology'?"),
        ("dram__zzz", "one of source, bandwidth_bytes_per_second, channels"),
    ],
)
def test_an_unknown_key_gets_a_suggestion(write: Write, field: str, suggestion: str) -> None:
    fault = _fault(write(_changed(**{field: 1})))
    assert fault.field == field.replace("__", ".")
    assert fault.allowed.startswith(suggestion)


def test_keys_are_text(write: Write) -> None:
    assert _fault(write(_changed() + "7: 8\n")).allowed == "keys that are text"


@pytest.mark.parametrize(
    "field", ["buffer.capacity_bytes", "dram.bandwidth_bytes_per_second", "array.rows", "dma"]
)
def test_an_empty_value_is_a_fault_and_never_unlimited(write: Write, field: str) -> None:
    fault = _fault(write(_changed(**{field.replace(".", "__"): None})))
    assert (fault.field, fault.value) == (field, ABSENT)


@pytest.mark.parametrize(("changes", "field", "allowed"), DATA["impossible combinations"])
def test_impossible_combinations_are_refused(
    write: Write, changes: dict[str, object], field: str, allowed: str
) -> None:
    fault = _fault(write(_changed(**changes)))
    assert (fault.field, fault.allowed) == (field, allowed)


@pytest.mark.parametrize(
    "changes",
    [
        {"buffer__capacity_bytes": 32, "dram__interleave_bytes": 32},
        {"dram__channels": 16},
        {"dram__bandwidth_bytes_per_second": 954},
        {"noc__distribution": {"topology": "bus", "multicast": False}},
    ],
)
def test_what_is_just_possible_loads(write: Write, changes: dict[str, object]) -> None:
    load_accelerator(write(_changed(**changes)))


def test_numbers_that_no_vector_unit_converts_are_refused(write: Write) -> None:
    for number in ("int8", "fp8", "bf16"):
        fault = _fault(write(_changed(compiler__products="whole", compiler__converts=[number])))
        assert (fault.field, fault.allowed) == ("compiler.converts[0]", "'fp16'")


def test_products_on_the_diagonal_have_no_blocks(write: Write) -> None:
    free = {"array__count": 2, "array__edge_folds": "used", "array__diagonal": True}
    load_accelerator(write(_changed(**free)))
    blocks = {"steps": 16, "in_flight": 5}
    fault = _fault(write(_changed(array__diagonal=True, array__blocks=blocks)))
    assert (fault.field, fault.allowed) == ("array.diagonal", "false, with array.blocks")
    rates = {"array__macs_per_cycle": {"bits8": 2}, "array__count": 1}
    fault = _fault(write(_changed(array__blocks=blocks, **rates)))
    assert (fault.field, fault.allowed) == ("array.macs_per_cycle", "nothing, with array.blocks")


def test_all_faults_come_together(write: Write) -> None:
    text = _changed(
        array__rows=0,
        buffer__capacity=1,
        dram__channels=...,
        dram__interleave_bytes="2 KiB",
        dram__bandwidth_bytes_per_second="2 B/s",
        energy__mac_pj=...,
        sfu__lanes=None,
    )
    faults = _faults(write(text + "dma: {}\ndma: {}\n"), "dram.latncy_cycles=3", "array.cols=-1")
    assert {fault.field for fault in faults} == {
        "dma",
        "array.rows",
        "array.cols",
        "buffer.capacity",
        "energy.mac_pj",
        "sfu.lanes",
        "dram.bandwidth_bytes_per_second",
        "dram.latncy_cycles",
    }


def test_impossible_combinations_come_together(write: Write) -> None:
    faults = _faults(write(_changed(buffer__capacity_bytes=16, dram__bandwidth_bytes_per_second=1)))
    assert [fault.field for fault in faults] == [
        "buffer.capacity_bytes",
        "dram.bandwidth_bytes_per_second",
    ]
    # a piece of a channel, 2 KiB, fits no buffer of 16 B either: the buffer is what is wrong
    (fault,) = _faults(write(_changed(dram__interleave_bytes="2 KiB")))
    assert fault.field == "dram.interleave_bytes"  # toy's buffer has 1 KiB


def test_overrides_replace_values() -> None:
    edge = load_accelerator(
        "edge",
        [
            "buffer.capacity_bytes=unlimited",
            "dram.bandwidth_bytes_per_second = 25 GB/s",
            "array.overlap=none",
            "array.rows=16",
            "noc.collection.topology=unlimited",
            "dma.in_queues=single",
            "energy.mac_pj=1e-3",
            "array.rows=64",
        ],
    )
    assert edge.buffer.capacity_bytes is None
    assert edge.dram.bandwidth_bytes_per_second == 25 * 10**9
    assert edge.systolic.overlap == "none"
    assert edge.array.rows == 64
    assert edge.collection_rate.unlimited
    assert edge.dma.in_queues == "single"
    assert edge.energy.mac_pj == 0.001


def test_overrides_mend_a_file(write: Write) -> None:
    path = write(_changed(array__rows=0, buffer__capacity_bytes=...))
    mended = load_accelerator(path, ["array.rows=4", "buffer.capacity_bytes=1 KiB"])
    assert mended == load_accelerator("toy")


def test_a_section_is_no_field_to_override() -> None:
    assert _fault("edge", "array=3").field == "array"


NUMBERS = (0, 1, -1, 2**20, 2**30, 2**50, 10**400, 0.5, float("inf"))
TEXTS = ("", "unlimited", "1 GiB", "1 B", "1 TB/s", "1 Hz", "1 GHz", "\0", "é" * 999)
EXTREMES: st.SearchStrategy[object] = st.sampled_from([*NUMBERS, *TEXTS, None, True, [], {}])


@given(st.dictionaries(st.sampled_from(leaf_fields(Accelerator)), EXTREMES, max_size=6))
def test_no_value_crashes(changes: dict[str, object]) -> None:
    overrides = [f"{field}={yaml.safe_dump(value)}" for field, value in changes.items()]
    try:
        accelerator = load_accelerator("toy", overrides)
    except InputError:
        return
    assert accelerator.distribution_rate.n_bytes > 0
    assert accelerator.channel_rate.cycles(2**43) >= 0
    assert accelerator.systolic.gemm_cycles(m=2**20, k=2**20, n=2**20, stationarity="ws") > 0
    assert accelerator_rows(accelerator)


def test_a_wheel_has_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wheel").mkdir()
    (tmp_path / "checkout").mkdir()
    (tmp_path / "checkout" / "edge.yaml").write_text("", encoding="utf-8")
    monkeypatch.setattr(presets, "_FOLDERS", (tmp_path / "none", tmp_path / "checkout"))
    assert list_accelerators() == ["edge"]
    (tmp_path / "wheel" / "mine.yaml").write_text(_changed(name="mine"), encoding="utf-8")
    monkeypatch.setattr(presets, "_FOLDERS", (tmp_path / "wheel", tmp_path / "checkout"))
    assert list_accelerators() == ["mine"]
    assert load_accelerator("mine").name == "mine"
    monkeypatch.setattr(presets, "_FOLDERS", (tmp_path / "none",))
    assert list_accelerators() == []


@pytest.mark.parametrize(
    ("field", "instead"),
    [
        ("turn_cycles", "batch_bytes: what a channel moves in one direction while the other waits"),
        ("max_outstanding", "in_flight_bytes: bytes that are requested and have not arrived"),
    ],
)
def test_a_replaced_field_is_refused_and_the_new_one_is_named(
    field: str, instead: str, write: Write
) -> None:
    found = faults_of(load_accelerator, "edge", [f"dram.{field}=4"])
    assert [fault.allowed for fault in found] == [instead]
    raw = copy.deepcopy(TOY)
    raw["dram"][field] = 4
    faults = faults_of(load_accelerator, write(yaml.safe_dump(raw)))
    assert [(f.field, f.allowed) for f in faults] == [(f"dram.{field}", instead)]


@pytest.mark.parametrize(
    ("field", "instead"),
    [
        ("overlap", "compiler.overlap"),
        ("resident", "compiler.resident"),
        ("epilogues", "compiler.epilogues"),
        ("start_cycles", "compiler.kernel_start_cycles"),
    ],
)
def test_the_section_of_kernels_is_the_compilers(field: str, instead: str, write: Write) -> None:
    found = faults_of(load_accelerator, "edge", [f"groups.{field}=0"])
    assert [fault.allowed for fault in found] == [instead]
    (fault,) = faults_of(load_accelerator, write(yaml.safe_dump({**TOY, "groups": {field: 0}})))
    assert fault.field == "groups"
    assert instead.partition(".")[2] in fault.allowed
    new = load_accelerator("edge", [f"{instead}=0", "compiler.overlap=false"]).compiler
    assert not getattr(new, instead.partition(".")[2])


def test_a_section_is_set_by_its_name() -> None:
    """Four channels have twice the bandwidth and capacity of two."""
    two, four = (
        load_accelerator("edge", [f"dram={count} x DDR4-3200x64"]).dram for count in (2, 4)
    )
    assert two.bandwidth_bytes_per_second is not None
    assert two.capacity_bytes is not None
    assert four.bandwidth_bytes_per_second == 2 * two.bandwidth_bytes_per_second
    assert (four.capacity_bytes, four.channels) == (2 * two.capacity_bytes, 4)
    assert load_accelerator("edge", ["dram=4xDDR4-3200x64"]).dram == four
    assert load_accelerator("edge", ["sfu=cloud"]).sfu == load_accelerator("cloud").sfu
    with pytest.raises(InputError, match=r"--set dram: dram: got '4 x DDR9'; allowed: a section"):
        load_accelerator("edge", ["dram=4 x DDR9"])
    with pytest.raises(InputError, match=r"--set energy: energy.dram_pj_per_byte: got nothing"):
        load_accelerator("edge", ["energy=7nm"])
