"""`simaccel dram`: parts, patterns as JSON and as tables, and what is refused."""

import json

import pytest
from click.testing import CliRunner, Result

from simaccel.cli import main
from simaccel.hardware.dram.parts import PARTS
from tests.draws import some


def _run(command: str) -> Result:
    return CliRunner().invoke(main, ["dram", *command.split()])


def _json(command: str) -> dict[str, object]:
    found = _run(f"{command} --json")
    assert found.exit_code == 0, found.output
    return json.loads(found.output)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "command",
    some(
        [
            "sequential --part HBM2 --map rbc --reads-in-flight 4",
            "random-chunk --part HBM3 --chunk 512 --write-fraction 0.33",
            "strided-tile --part LPDDR4-3200x16 --row-bytes 80 --pitch 4096",
            "alternating --part LPDDR5-6400x16 --chunk 4096 --waits",
            "two-streams --part DDR4-3200x64 --map mopxor --chunk 128 --write-fraction 0.5",
        ]
    ),
)
def test_a_pattern_prints_its_figures(command: str) -> None:
    found = _json(command)
    efficiency, useful = found["efficiency"], found["useful_efficiency"]
    assert isinstance(efficiency, float)
    assert isinstance(useful, float)
    assert 0 < useful <= efficiency <= 1
    assert isinstance(found["latency_ns"], float)
    table = _run(command)
    assert table.exit_code == 0
    assert "useful_efficiency" in table.output


def test_writes_alone_have_no_latency() -> None:
    assert _json("sequential --part HBM2 --write-fraction 1")["latency_ns"] is None
    assert "none" in _run("sequential --part HBM2 --write-fraction 1").output


def test_a_row_of_80_bytes_takes_three_bursts_of_32() -> None:
    found = _json("strided-tile --part LPDDR4-3200x16 --row-bytes 80 --pitch 4096")
    assert found["useful_efficiency"] == pytest.approx(float(str(found["efficiency"])) * 80 / 96)


def test_without_a_map_bank_groups_take_turns() -> None:
    assert _json("sequential --part HBM2")["map"] == "bgil"
    assert _json("sequential --part LPDDR4-3200x16")["map"] == "rbc"


def test_parts_are_listed_with_their_figures() -> None:
    listed = json.loads(_run("parts --json").output)
    assert [one["name"] for one in listed] == list(PARTS)
    assert all(name in _run("parts").output for name in PARTS)
    shown = _json("show HBM2")
    assert shown["faw"] == {"value": 30, "origin": PARTS["HBM2"].origin("faw")}
    assert "DRAMsim3" in _run("show HBM2").output


def test_idle_latencies_are_printed() -> None:
    found = _json("idle --part DDR4-3200x64")["latency_ns"]
    assert isinstance(found, dict)
    assert found["hit"] < found["conflict"]


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("sequential --part DDR9 --map abc", ["--part: got 'DDR9'", "--map: got 'abc'"]),
        ("sequential", ["--part"]),
        ("strided-tile --part HBM2 --row-bytes 64", ["--pitch"]),
        (
            "strided-tile --part HBM2 --row-bytes 64 --pitch 32",
            ["--pitch: got 32", "at least the 64"],
        ),
        ("random-chunk --part HBM2 --chunk 0", ["--chunk"]),
        ("random-chunk --part HBM2 --write-fraction 1.5", ["--write-fraction"]),
        ("sequential --part HBM2 --reads-in-flight 0", ["--reads-in-flight"]),
        ("sequential --part HBM2 --load 0", ["--load"]),
        ("sequential --part HBM2 --part HBM3", ["--part: got '2 values'"]),
        ("show DDR9", ["DDR9", "HBM2"]),
        ("idle --part DDR9", ["DDR9", "HBM2"]),
    ],
)
def test_what_is_wrong_is_named(command: str, texts: list[str]) -> None:
    found = _run(command)
    assert found.exit_code == 2
    assert "Traceback" not in found.output
    for text in texts:
        assert text in found.output
