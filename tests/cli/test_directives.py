"""`simaccel directives`, and MAESTRO descriptions as workloads, as their users write them."""

import json
from pathlib import Path
from typing import Any

import pytest

from simaccel.importers.workloads import load_workload
from tests.cli.conftest import Call
from validation.maestro.reference import all_runs, read_rows

VGG = next(
    runs
    for runs in all_runs(["table3_vgg16"])
    if (runs.rows[0]["layer"], runs.rows[0]["mapping_name"]) == ("CONV2", "KC-P")
)


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.m"
    path.write_text(VGG.text)
    return path


def _json(cli: Call, line: str) -> list[dict[str, Any]]:
    shown = cli.printed(line)
    found: list[dict[str, Any]] = json.loads(shown)
    return found


def test_published_runs_have_its_columns(cli: Call, net: Path) -> None:
    (found,) = _json(cli, f"directives {net} --noc-bandwidth 16 --json")
    buggy = {"csv_energy_nj_buggy"}  # a defect of the tool, which validation/maestro has
    assert {*VGG.rows[0]} - buggy <= {*found}


def test_a_run_says_that_the_file_has_directives(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "small.m"
    layer = "Type: CONV Dimensions { K: 4, C: 2, R: 1, S: 1, Y: 3, X: 3 }"
    maps = "SpatialMap(1,1) K; TemporalMap(1,1) C; TemporalMap(1,1) R; TemporalMap(1,1) S;"
    maps += " TemporalMap(1,1) Y; TemporalMap(1,1) X;"
    path.write_text(f"Network small {{ Layer A {{ {layer} Dataflow {{ {maps} }} }} }}")
    said = "ruby-s (default: searched; --dataflow directives runs those of the file)"
    run = f"run --hw maestro_256 --workload {path}"
    assert cli.printed(run).splitlines()[0].endswith(said)
    assert (
        cli.printed(f"{run} --dataflow directives").splitlines()[0].endswith("dataflow directives")
    )


def test_a_hardware_file_of_maestro(cli: Call, net: Path, tmp_path: Path) -> None:
    file = tmp_path / "accelerator.m"
    file.write_text("num_pes: 256 // all\nnoc_bw_cstr: 1000\nNoC_NumHops: 1\noffchip_bw_cstr: 50")
    row = next(
        row
        for row in read_rows("table3_accelerator1_offchip50")
        if (row["network"], row["layer"], row["mapping_name"]) == ("vgg16", "CONV2", "KC-P")
    )
    (found,) = _json(cli, f"directives {net} --hw {file} --json")
    for name in ("num_pes", "noc_bw", "noc_hop_latency", "offchip_bw", "macs_true"):
        assert found[name] == int(row[name])


def test_a_hardware_file_with_the_names_of_before(cli: Call, net: Path, tmp_path: Path) -> None:
    file = tmp_path / "accelerator.m"
    file.write_text("NumPEs: 64\nL1Size: 37\nL2Size: 3215880\nNoC_BW: 8\nNoC_NumHops: 2\n")
    (found,) = _json(cli, f"directives {net} --hw {file} --json")
    assert (found["num_pes"], found["noc_bw"], found["noc_hop_latency"]) == (64, 8, 2)
    assert "L1 has 37, needed are 38" in cli(f"directives {net} --hw {file}").stderr


def test_what_does_not_fit_is_noted(cli: Call, net: Path, tmp_path: Path) -> None:
    file = tmp_path / "small.m"
    file.write_text("num_pes: 256\nl1_size_cstr: 37\nl2_size_cstr: 3215880")
    result = cli(f"directives {net} --hw {file}")
    # A filter of 9, 9 inputs and an output, twice; L2: 64 x 224 x 224 + 2 x 4 x (64 x 9 + 1).
    assert result.stderr == "note: layer CONV2: L1 has 37, needed are 38\n"
    file.write_text("num_pes: 256\nl1_size_cstr: 38")
    assert cli(f"directives {net} --hw {file}").stderr == ""


def test_maps_that_overlap_are_noted(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "qk.m"
    file.write_text(
        "Network n { Layer qk { Type: CONV Dimensions { K: 128, C: 1, R: 64, S: 1, Y: 64, X: 128 }"
        " Dataflow { SpatialMap(2,1) K; TemporalMap(1,1) C; TemporalMap(Sz(R),Sz(R)) R;"
        " TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X; } } }"
    )
    result = cli(f"directives {file}")
    counts = f"{127 * 2 * 64 * 128:,} MACs, and its dimensions have {128 * 64 * 128:,}"
    assert result.stderr == f"note: layer qk: {counts}; its maps overlap: some are made twice\n"


def test_the_default_reading_lists_what_it_corrects(cli: Call, net: Path) -> None:
    (found,) = _json(cli, f"directives {net} --layer CONV2 --json")
    assert found["runtime_cycles"] == 36_273_775
    corrections = found["corrections"]
    assert set(corrections) >= {"edge_tiles", "stride", "fan_out", "sums"}
    # Undone alone, L1 writes of the filter are what L2 reads: once for all 64 x 64 x 9.
    assert corrections["fan_out"]["effect"]["input_l1_write"] > 0
    assert [level["limited_by"] for level in found["levels"]] == ["compute", "first fill"]


def test_the_table_is_for_people(cli: Call, net: Path) -> None:
    shown = cli.printed(f"directives {net}")
    assert "36,273,775" in shown
    assert "corrected, and how much it adds" in shown


def test_no_multicast_and_no_reduction(cli: Call, net: Path) -> None:
    (base,) = _json(cli, f"directives {net} --json")
    (alone,) = _json(cli, f"directives {net} --no-multicast 0 --json")
    (apart,) = _json(cli, f"directives {net} --no-reduction all --json")
    assert alone["input_l2_read"] == 4 * base["input_l2_read"]  # 4 clusters split K
    assert apart["runtime_cycles"] > base["runtime_cycles"]


def test_it_prints_the_description(cli: Call, net: Path, tmp_path: Path) -> None:
    text = cli(f"directives {net} --print").stdout
    again = tmp_path / "again.m"
    again.write_text(text)
    assert cli(f"directives {again} --print").stdout == text


def test_descriptions_are_workloads(cli: Call, net: Path, tmp_path: Path) -> None:
    shown = cli.printed(f"workload show {net}")
    assert "1,816,805,376" in shown
    unnamed = tmp_path / "net.txt"
    unnamed.write_text(VGG.text)
    assert cli(f"workload show {unnamed}").stdout == shown
    ran = cli(f"run --hw edge --workload {net} --set layer=CONV2 --dataflow naive --json")
    assert json.loads(ran.stdout)["macs"] == 1_816_805_376


def test_its_dataflow_runs_on_the_machine(cli: Call, net: Path, tmp_path: Path) -> None:
    trace = tmp_path / "run.h5"
    line = f"run --hw maestro_256 --workload {net} --dataflow directives"
    ran = cli.printed(f"{line} --trace {trace} --json")
    # K in 16 rounds of 4 clusters, 222 x 222 outputs, 9 cycles each, and the first fill.
    cycles = json.loads(ran)["cycles"]
    assert 16 * 222 * 222 * 9 < cycles < 1.01 * 16 * 222 * 222 * 9
    assert "noc" in cli(f"trace stalls {trace}").stdout
    mapped = cli(f"map --hw maestro_256 --workload {net} --dataflow directives")
    assert "spread m 1 cols" in mapped.stdout


def _product(path: Path, k: int, maps: str) -> Path:
    """Write a product of 8 x k x 8 with the dataflow ``maps``."""
    path.write_text(
        f"Network p {{ Layer a {{ Type: GEMM Dimensions {{ M: 8, N: 8, K: {k} }}"
        f" Dataflow {{ {maps} }} }} }}"
    )
    return path


_BY_N = "TemporalMap(1,1) M; SpatialMap(1,1) N; TemporalMap(1,1) K;"
_BY_M = "TemporalMap(1,1) N; SpatialMap(1,1) M; TemporalMap(1,1) K;"
_MACHINE = "--hw maestro_256"


def test_chips_do_all_of_what_directives_describe(cli: Call, tmp_path: Path) -> None:
    """As directives are of whole layers, each chip does them; degrees are refused."""
    line = f"compare {_MACHINE} --workload {_product(tmp_path / 'p.m', 256, _BY_N)}"
    line += " --set links.bytes_per_second=10GB/s --dataflow directives"
    one, two = _json(cli, f"{line} --chips 1,2 --json")
    assert 8 * 256 < one["cycles"] == two["cycles"]  # 8 rows, each of 256 steps of 8 PEs
    assert two["macs"] == one["macs"] == 8 * 256 * 8
    run = line.replace("compare", "run") + " --chips 2"
    assert "2 chips in a ring: each does all of it" in cli.printed(run)
    explained = run.replace("run", "explain", 1) + " --no-measure --json"
    (group,) = json.loads(cli.printed(explained))["groups"]
    assert group["machine"]["cycles"] == one["cycles"]


def test_explain_takes_directives_of_the_dataflow_alone(cli: Call, tmp_path: Path) -> None:
    """A mapping made of other directives has those of its tree: N on PEs, 8 x 256 steps."""
    first = _product(tmp_path / "first.m", 256, _BY_N)
    mapping = tmp_path / "m.yaml"
    cli.printed(f"map {_MACHINE} --workload {first} --dataflow directives -o {mapping}")
    shown = []
    for name, maps in (("same.m", _BY_N), ("other.m", _BY_M), ("bad.m", f"{_BY_M} Cluster(0,P);")):
        file = _product(tmp_path / name, 256, maps)
        line = f"explain {_MACHINE} --workload {file} --mapping {mapping} --no-measure --json"
        (group,) = json.loads(cli.printed(line))["groups"]
        shown.append(group["directives"]["cycles"])
    assert shown[0] == pytest.approx(8 * 256, rel=0.05)
    assert shown == shown[:1] * 3


def test_a_layer_cut_over_cores_has_the_directives_of_its_tree(cli: Call, tmp_path: Path) -> None:
    """A core takes half of the 16 x 256 x 9 steps; the file's directives are of all of them."""
    file = tmp_path / "c.m"
    file.write_text(
        "Network n { Layer c { Type: CONV Dimensions { K: 32, C: 16, R: 3, S: 3, Y: 18, X: 18 }"
        " Dataflow { SpatialMap(1,1) K; TemporalMap(1,1) C; TemporalMap(Sz(R),1) Y;"
        " TemporalMap(Sz(S),1) X; TemporalMap(Sz(R),Sz(R)) R; TemporalMap(Sz(S),Sz(S)) S; } } }"
    )
    line = f"explain {_MACHINE} --workload {file} --dataflow directives --no-measure --json"
    (group,) = json.loads(cli.printed(f"{line} --set cores.count=2"))["groups"]
    assert group["machine"]["cycles"] == pytest.approx(8 * 256 * 9, rel=0.02)
    assert group["directives"]["cycles"] == pytest.approx(8 * 256 * 9, rel=0.02)


def test_compare_takes_mapspaces_beside_directives(cli: Call, tmp_path: Path) -> None:
    file = _product(tmp_path / "p.m", 16, _BY_N)
    line = f"compare {_MACHINE} --workload {file} --dataflow directives"
    rows = _json(cli, f"{line} --set mapspace=pfm --set patience=3 --json")
    assert [row["dataflow"] for row in rows] == ["directives", "pfm"]


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


def test_thousands_of_faults_are_a_few_lines(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "n.m"
    path.write_text("Network n {\n" * 20_000)
    said = cli.refused(f"run --hw maestro_256 --workload {path}")
    assert len(said.splitlines()) == 1
    assert "(100 in all)" in said
