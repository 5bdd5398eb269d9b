"""Rows of chips: predicted without their figures, within what the page says, some of each set."""

import csv
import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from validation.silicon.coral.networks import NETWORKS
from validation.silicon.kernels import padded
from validation.silicon.predict import SETS, main
from validation.silicon.tpu_v6e.layers import OUTSIDE

REPOSITORY = Path(__file__).parents[1]
SILICON = REPOSITORY / "validation" / "silicon"


def _rows(name: str) -> list[dict[str, str]]:
    with (SILICON / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("name", "file", "column", "every", "within"),
    [
        ("tpu_v3", "tpu_v3/measured.csv", "tpu_v3_cycles", 1, 0.23),
        ("tpu_v4_gemm", "tpu_v4/tpu_v4_gemm_calibration.csv", "fusion_median_us", 8, 0.21),
        ("tpu_v4_vector", "tpu_v4/tpu_v4_vector_calibration.csv", "op_median_us", 20, 0.21),
        (
            "tpu_v4_layernorm",
            "tpu_v4/tpu_v4_layernorm_calibration.csv",
            "module_median_us",
            9,
            0.21,
        ),
        ("tpu_v4_copy", "tpu_v4/copies.csv", "us", 7, 0.3),
        ("tpu_v5e_gemm", "tpu_v5e/measured.csv", "time_s", 1, 0.065),
        ("tpu_v6e_attention", "tpu_v6e/attention.csv", "p50_ns", 480, 0.34),
        ("vta", "vta/measured.csv", "cycles_pipelined_gemm", 2, 0.13),
        ("vta_unpipelined", "vta/measured.csv", "cycles_baseline_gemm", 3, 0.045),
        ("nvdla_networks", "nvdla/networks.csv", "resnet50_int8_fps", 3, 0.4),
        ("tpu_v6e_v7_gemm", "tpu_v7/measured.csv", "time_us", 4, 0.25),
    ],
)
def test_rows_are_as_near_as_the_page_says(
    name: str, file: str, column: str, every: int, within: float
) -> None:
    """The measured figures are the chips' own; a row is predicted without them."""
    rows = _rows(file)[::every]
    predict, needed = SETS[name]
    predicted = predict([{key: row[key] for key in needed} for row in rows])
    for row, value in zip(rows, predicted, strict=True):
        assert value is not None
        assert abs(value / float(row[column]) - 1) <= within, row


def test_a_tpu_v3_is_nearer_than_every_tool_of_the_table() -> None:
    """Over the rows that the tools have: PyTorchSim claims 11.5% over all."""
    rows = _rows("tpu_v3/measured.csv")
    predicted = SETS["tpu_v3"][0](rows)
    errors = [
        abs(value / float(row["tpu_v3_cycles"]) - 1)
        for row, value in zip(rows, predicted, strict=True)
        if value is not None
    ]
    assert len(errors) == 22
    assert sum(errors) / len(errors) < 0.08
    assert max(errors) < 0.25


def test_a_block_is_the_sum_of_its_operators() -> None:
    """94 lengths; `down_proj` has no row of `up_proj` beside it below 313 tokens and holds both."""
    rows = [row for row in _rows("tpu_v6e/layers.csv") if row["tokens"] in ("8", "512", "1536")]
    predicted = SETS["tpu_v6e_layers"][0](rows)
    for tokens in ("8", "512", "1536"):
        both = [
            (float(row["ns"]), value)
            for row, value in zip(rows, predicted, strict=True)
            if row["tokens"] == tokens and row["layer"] not in OUTSIDE and value is not None
        ]
        measured, ours = (sum(one) for one in zip(*both, strict=True))
        assert abs(ours / measured - 1) <= 0.1


def test_layers_of_nvdla_that_its_formula_and_the_machine_see_alike() -> None:
    """1 x 1 convolutions of whole rows of channels, limited by DRAM, without a second operand."""
    rows = [
        row
        for row in _rows("nvdla/layers.csv")
        if row["network"] == "ResNet50"
        and row["kind"] == "conv"
        and row["R"] == row["stride_h"] == "1"
    ]
    same = [row for row in rows if 100 * float(row["dram_kib"]) == float(row["cycles"])]
    assert len(same) == 14
    for row, value in zip(same, SETS["nvdla_layers"][0](same), strict=True):
        assert value is not None
        assert abs(value / float(row["cycles"]) - 1) <= 0.25, row


@pytest.mark.parametrize(
    ("model", "giga_macs", "million_weights"),
    [
        ("MobileNet v1", 0.569, 4.2),
        ("MobileNet v2", 0.300, 3.4),
        ("Inception v1", 1.5, 6.8),
        ("Inception v4", 12.3, 42.7),
        ("Inception-ResNet v2", 13.2, 55.8),
        ("DenseNet", 2.8, 8.0),
        ("SqueezeNet", 0.84, 1.25),
        ("VGG16", 15.5, 138.3),
        ("VGG19", 19.6, 143.7),
        ("EfficientNet-EdgeTPU-S", 2.35, 5.4),
        ("EfficientNet-EdgeTPU-M", 3.7, 6.9),
    ],
)
def test_networks_have_the_published_macs_and_weights(
    model: str, giga_macs: float, million_weights: float
) -> None:
    """Of the papers, and of TensorFlow's tables (slim, EfficientNet-EdgeTPU)."""
    layers = list(NETWORKS[model]())
    macs = sum(math.prod(layer.ranks.values()) for layer in layers)
    assert macs / 1e9 == pytest.approx(giga_macs, rel=0.07)
    assert sum(layer.weights for layer in layers) / 1e6 == pytest.approx(million_weights, rel=0.03)


def test_models_that_the_link_limits_take_as_long_as_on_the_chip() -> None:
    rows = [row for row in _rows("coral/measured.csv") if row["model"].startswith(("VGG", "Res"))]
    assert len(rows) == 5
    for name, column in (("coral", "usb3_desktop_ms"), ("coral_board", "dev_board_ms")):
        for row, value in zip(rows, SETS[name][0](rows), strict=True):
            assert value is not None
            assert abs(value / float(row[column]) - 1) <= 0.15, row


def test_a_trace_of_the_device_needs_no_constant() -> None:
    rows = [row for row in _rows("tpu_v7/measured.csv") if row["timing"] == "device trace"]
    assert len(rows) == 6
    for row, value in zip(rows, SETS["tpu_v6e_v7_gemm"][0](rows), strict=True):
        assert value is not None
        assert abs(value / float(row["time_us"]) - 1) <= 0.03


def test_the_command_adds_a_column(tmp_path: Path) -> None:
    given, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    given.write_text("workload\ngemm_256x256x256\nbatchnorm_3x4\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["tpu_v3", str(given), "-o", str(out)])
    assert done.exit_code == 0, done.output
    header, gemm, unknown = out.read_text(encoding="utf-8").splitlines()
    assert header == "workload,predicted"
    assert int(gemm.split(",")[1]) > 256**3 // (2 * 128**2)
    assert unknown == "batchnorm_3x4,"


def test_a_row_that_cannot_be_said_leaves_the_others(tmp_path: Path) -> None:
    given, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    given.write_text("M,N,K\n64,64,64\n0,64,64\nx,64,64\n64,64,64\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["tpu_v4_gemm", str(given), "-o", str(out)])
    assert done.exit_code == 0, done.output
    first, *bad, last = [line.split(",")[3] for line in out.read_text("utf-8").splitlines()[1:]]
    assert bad == ["", ""]
    assert first == last != ""
    assert done.stderr.count("is not predicted") == 2


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    given, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    given.write_text("M,N\n1,2\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["tpu_v4_gemm", str(given), "-o", str(out)])
    assert done.exit_code == 1
    assert "no column K" in done.output
    assert not out.exists()


def test_arrays_are_laid_out_with_the_least_padding() -> None:
    """By hand: 24 x 16 x 16 as 16 x 16 rows of 24, which are padded to 128: 16 * 16 * 128."""
    assert padded((24, 16, 16)) == 32768
    assert padded((320, 320)) == 384 * 320
