"""MAESTRO descriptions as their users write them: figures from the tool's rules, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simaccel.importers.workloads import load_workload
from tests.cli.conftest import Call

_LAYER = """Network small {{
  Layer c1 {{
    Type: CONV
    Dimensions {{ K: 32, C: 16, R: 3, S: 3, Y: 30, X: 30 }}
    Dataflow {{
      TemporalMap(16,16) K; SpatialMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X; TemporalMap(1,1) C;
      Cluster(16, P);
      SpatialMap(1,1) K; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X;
      TemporalMap({0}) R; TemporalMap({0}) S;
    }}
  }}
}}
"""


@pytest.mark.parametrize("covering", ["3,3", "Sz(R),5", "3,1", "7,7", "9,2"])
def test_a_map_that_covers_its_dimension_never_steps(
    cli: Call, tmp_path: Path, covering: str
) -> None:
    path = tmp_path / "c1.m"
    path.write_text(_LAYER.format(covering))
    shown = cli.printed(f"directives {path} --pes 64 --json")
    (found,) = json.loads(shown)
    assert found["runtime_cycles"] == 94_088


def test_maps_that_leave_positions_out_are_faults_of_one_kind(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "c1.m"
    path.write_text(
        _LAYER.format("2,2")
        + "".join(
            _LAYER.format("2,2").replace("small", f"n{at}").replace("c1", f"l{at}")
            for at in range(60)
        )
    )
    said = cli.refused(f"directives {path}")
    of_r, of_s = said.splitlines()
    assert "(3,3): a TemporalMap of R has all of it; likewise line 21" in of_r
    assert of_s.endswith("(61 in all)")


def _up(path: Path, text: str) -> Path:
    path.write_text(f"Network up {{ Layer up1 {{ Type: TRCONV {text} }} }}")
    return path


@pytest.mark.parametrize(
    ("text", "outputs"),
    [
        ("Dimensions { K: 24, C: 40, R: 2, S: 2, Y: 14, X: 14 }", 24 * 28 * 28),
        ("Stride { X: 2, Y: 2 } Dimensions { K: 24, C: 40, R: 4, S: 4, Y: 7, X: 7 }", 24 * 14 * 14),
        (
            "Stride { X: 1, Y: 2 } Dimensions { K: 24, C: 40, R: 2, S: 1, Y: 7, X: 28 }",
            24 * 14 * 28,
        ),
        ("Stride { X: 1, Y: 1 } Dimensions { K: 24, C: 40, R: 3, S: 3, Y: 7, X: 9 }", 24 * 7 * 9),
    ],
)
def test_up_sampling_makes_its_true_output(tmp_path: Path, text: str, outputs: int) -> None:
    made = load_workload(_up(tmp_path / "up.m", text + " Dataflow { SpatialMap(1,1) K; }"))
    sizes = {name: made.tensor_bytes(name) // 2 for name in made.tensors}
    assert sizes["up1.O"] == outputs
    numbers = dict(part.split(": ") for part in text.split("Dimensions { ")[1][:-2].split(", "))
    taps_and_places = [int(numbers[dim]) for dim in "KCRSYX"]
    expected = 1
    for size in taps_and_places:
        expected *= size
    assert made.macs == expected


def test_up_sampling_is_analysed_as_the_tool_does_with_a_note(cli: Call, tmp_path: Path) -> None:
    text = "Dimensions { K: 24, C: 40, R: 2, S: 2, Y: 14, X: 14 } Dataflow { SpatialMap(1,1) K; }"
    result = cli(f"directives {_up(tmp_path / 'up.m', text)} --json")
    assert result.exit_code == 0
    assert "got 'TRCONV'; allowed: an analysis as a CONV" in result.stderr
    said = cli.refused(f"run --hw maestro_256 --workload {tmp_path / 'up.m'} --dataflow directives")
    assert "directives don't say how a TRCONV up-samples" in said


def test_a_stride_that_no_filter_fills_is_a_fault(cli: Call, tmp_path: Path) -> None:
    text = "Stride { X: 2, Y: 2 } Dimensions { K: 4, C: 4, R: 3, S: 4, Y: 7, X: 7 }"
    said = cli.refused(f"workload show {_up(tmp_path / 'up.m', text + ' Dataflow { }')}")
    assert "got 3; allowed: a multiple of the stride of Y, 2, in a TRCONV" in said


def test_thousands_of_faults_are_a_few_lines(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "n.m"
    path.write_text("Network n {\n" * 20_000)
    said = cli.refused(f"run --hw maestro_256 --workload {path}")
    assert len(said.splitlines()) == 1
    assert "(100 in all)" in said
