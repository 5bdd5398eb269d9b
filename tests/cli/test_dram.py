"""`simaccel dram`: parts, what patterns get from them, and what is refused."""

import json

import pytest
from click.testing import CliRunner, Result

from simaccel.cli import main
from simaccel.hardware.dram.parts import PARTS


def _run(command: str) -> Result:
    return CliRunner().invoke(main, ["dram", *command.split()])


def test_parts_are_listed_with_their_figures() -> None:
    listed = json.loads(_run("parts --json").output)
    assert [one["name"] for one in listed] == list(PARTS)
    assert all(name in _run("parts").output for name in PARTS)
    shown = json.loads(_run("show HBM2 --json").output)
    assert shown["faw"] == {"value": 30, "origin": PARTS["HBM2"].origin("faw")}
    assert "DRAMsim3" in _run("show HBM2").output


@pytest.mark.parametrize("part", PARTS)
def test_what_patterns_get_from_a_part(part: str) -> None:
    """A stream gets what an accelerator with the part is given; a conflict waits for a row."""
    found = json.loads(_run(f"measured --part {part} --json").output)["patterns"]
    (stream,) = (one for one in found if (one["pattern"], one["settings"]) == ("sequential", ""))
    assert stream["efficiency"] == pytest.approx(PARTS[part].stream_permille / 1000, abs=0.0006)
    for one in found:
        assert one["pattern"] == "idle" or 0 < one["useful_efficiency"] <= one["efficiency"] < 1
    idle = {one["settings"]: one["latency_ns"] for one in found if one["pattern"] == "idle"}
    assert idle["hit"] < idle["conflict"]


def test_a_pattern_is_shown_alone() -> None:
    found = _run("measured --part HBM2 --pattern idle").output
    assert "conflict" in found
    assert "sequential" not in found
