"""Rows of chips: predicted without their figures, within what the page says, some of each set."""

import csv
import json
import math
import re
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from simaccel import load_accelerator, simulate
from simaccel.cli.app import main as simaccel
from simaccel.units import LIMITS
from validation.silicon.booked import open_books
from validation.silicon.coral.networks import NETWORKS
from validation.silicon.measured import MEASURED, Measured, measured_rows
from validation.silicon.networks import linked_resnet
from validation.silicon.predict import SETS, limits_each, main, predict_each
from validation.silicon.runs import vector_workload
from validation.silicon.tpu_v6e.layers import OUTSIDE
from validation.silicon.vta.model import quantised

REPOSITORY = Path(__file__).parents[2]
SILICON = REPOSITORY / "validation" / "silicon"


def _rows(name: str) -> list[dict[str, str]]:
    with (SILICON / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("name", "mean", "worst"),
    [
        ("tpu_v3", 0.085, 0.23),  # of the 22 rows that tools have; PyTorchSim claims 0.115 over all
        ("tpu_v4_gemm", 0.054, 0.245),
        ("tpu_v4_vector", 0.023, 0.128),
        ("tpu_v4_layernorm", 0.032, 0.111),
        ("tpu_v4_copy", 0.038, 0.163),
        ("tpu_v5e_gemm", 0.037, 0.065),
        ("tpu_v6e_attention", 0.036, 0.472),
        ("tpu_v6e_v7_gemm", 0.096, 0.251),
        ("vta", 0.027, 0.079),
        ("vta_unpipelined", 0.0098, 0.023),
        ("nvdla_networks", 0.124, 0.314),
    ],
)
def test_rows_are_as_near_as_the_page_says(name: str, mean: float, worst: float) -> None:
    """All rows as recorded, which is as they are predicted; measured figures are the chips' own."""
    of = next(of for of in MEASURED if of.name == name)
    rows = _recorded(of)
    errors = [abs(float(row["predicted"]) / float(row[of.column]) - 1) for row in rows]
    assert [row[of.column] for row in rows] == [f"{float(n[of.column]):.6g}" for n in _measured(of)]
    assert sum(errors) / len(errors) <= mean
    assert max(errors) <= worst


def _recorded(of: Measured) -> list[dict[str, str]]:
    return _rows(f"{Path(of.file).parent}/{of.name}.csv")


def _measured(of: Measured) -> list[dict[str, str]]:
    return [*filter(of.part, measured_rows(of))]


_FEWER: Final = {
    "coral": 3,
    "coral_board": 3,
    "nvdla_networks": 2,
    "tpu_v6e_block": 2,
} | dict.fromkeys(("vta", "vta_unpipelined"), 2)
"""Rows that are predicted anew of sets that take long; of the others ten."""
_REGIMES: Final = {
    "tpu_v6e_attention": (
        "decode 0 224 29",  # the last row whose repeated keys fit, and the first whose don't
        "decode 0 224 31",
        "decode 0 256 32",  # the first whose values come ahead
        "prefill 1344 0 1",  # six blocks of 256 queries; five of 269 or more
    )
}
"""Rows on both sides of a compiler's thresholds, which ten evenly spaced ones don't meet."""


@pytest.mark.parametrize("of", MEASURED, ids=[of.name for of in MEASURED])
def test_rows_are_predicted_as_they_are_recorded(of: Measured) -> None:
    """A change that moves one runs `python -m validation.silicon.run SET`, and is in the changelog.

    The measured figures are not given: a row is predicted without them.
    """
    recorded, needed = _recorded(of), SETS[of.set].needed
    numbers, together = count(), dict[object, list[dict[str, str]]]()
    for row in _measured(of):
        name = row[of.labels[0]] if of.added else next(numbers)
        together.setdefault(name, []).append(row)
    step = -(-len(recorded) // _FEWER.get(of.name, 10))
    every, regimes = list(zip(recorded, together.values(), strict=True)), _REGIMES.get(of.name, ())
    near = [pair for pair in every if pair[0][" ".join(of.labels)] in regimes]
    pairs = [*every[::step], *near]
    assert len(pairs) > 1 + len(regimes)
    for known, rows in pairs:
        assert known[" ".join(of.labels)] == " ".join(rows[0][name] for name in of.labels)
        with open_books() as booked:
            values = predict_each(of.set, [{key: row[key] for key in needed} for row in rows])
        predicted = [value for value in values if not isinstance(value, str)]
        assert len(predicted) == len(rows)
        assert f"{sum(predicted):.6g}" == known["predicted"], known
        assert LIMITS[booked.most_common(1)[0][0]] == known["limit"], known


def test_a_block_is_the_sum_of_its_operators() -> None:
    """94 lengths; `down_proj` has no row of `up_proj` beside it below 313 tokens and holds both."""
    rows = [row for row in _rows("tpu_v6e/layers.csv") if row["tokens"] in ("8", "512", "1536")]
    predicted = predict_each("tpu_v6e_layers", rows)
    for tokens in ("8", "512", "1536"):
        both = [
            (float(row["ns"]), value)
            for row, value in zip(rows, predicted, strict=True)
            if row["tokens"] == tokens
            and row["layer"] not in OUTSIDE
            and not isinstance(value, str)
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
    for row, value in zip(same, predict_each("nvdla_layers", same), strict=True):
        assert not isinstance(value, str), value
        assert abs(value / float(row["cycles"]) - 1) <= 0.1, row


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
        for row, value in zip(rows, predict_each(name, rows), strict=True):
            assert not isinstance(value, str), value
            assert abs(value / float(row[column]) - 1) <= 0.15, row


def test_a_trace_of_the_device_needs_no_constant() -> None:
    rows = [row for row in _rows("tpu_v7/measured.csv") if row["timing"] == "device trace"]
    assert len(rows) == 6
    for row, value in zip(rows, predict_each("tpu_v6e_v7_gemm", rows), strict=True):
        assert not isinstance(value, str), value
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


@pytest.mark.parametrize(
    ("name", "header", "good", "bad"),
    [
        (
            "tpu_v4_gemm",
            "M,N,K",
            ["64,64,64", "64.0, 64 ,64"],
            {
                "0,64,64": "M: got '0'; allowed: a whole number from 1",
                "64,-3,1.5": "N: got '-3'; allowed: a whole number from 1 to 2147483647; K: got",
                "64,,64": "N: got ''",
                "64,64": "K: no cell",
                "64,64,64,64": "more cells than columns",
            },
        ),
        (
            "tpu_v6e_v7_gemm",
            "chip,timing,dtype,M,N,K",
            ["v6e,host,bf16,128,128,128", "v6e,host,bfloat16,128,128,128"],
            {
                "v5,host,bf16,1,1,1": "chip: got 'v5'; allowed: one of v6e, v7 chiplet",
                "v6e,cpu,int3,1,1,1": "timing: got 'cpu'; allowed: one of host, device trace; dty",
            },
        ),
        (
            "tpu_v6e_attention",
            "phase,chunk,kv,batch",
            ["decode,0,64,2", "decode,1,64,2"],
            {
                "prefill,0,64,1": "prompt: got 0",
                "extend,1,1,1": "phase: got 'extend'",
                "prefill,16,-5,1": "kv: got '-5'",
            },
        ),
        (
            "tpu_v3",
            "workload",
            ["layernorm_64x768", "layernorm_768x64"],
            {
                "gemm_64x64": "got 'gemm_64x64'; allowed: gemm_AxBxC",
                "gemm_axbxc": "got 'gemm_axbxc'",
                "gemm_64x0x64": "sizes from 1",
                "gelu_4": "got 'gelu_4'",
                "conv_8x8x8x3x3x9x1x0": "a kernel of 9 on 8 x 8, padded by 0",
            },
        ),
    ],
)
def test_a_row_that_cannot_be_said_leaves_the_others(
    tmp_path: Path, name: str, header: str, good: list[str], bad: dict[str, str]
) -> None:
    """Rows that say the same are predicted alike, before and behind those that say nothing."""
    given, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    lines = [header, good[0], *bad, good[1]]
    given.write_text("\ufeff" + "\r\n".join(lines) + "\n", encoding="utf-8")
    done = CliRunner().invoke(main, [name, str(given), "-o", str(out)])
    assert done.exit_code == 0, done.output
    first, *refused, last = [line.split(",") for line in out.read_text("utf-8").splitlines()[1:]]
    assert first[-1] == last[-1] != ""
    assert [row[-1] for row in refused] == [""] * len(bad)
    said = done.stderr.splitlines()
    for number, (line, why) in enumerate(zip(said, bad.values(), strict=True), 2):
        assert line.startswith(f"{given}: row {number} is not predicted: ")
        assert why in line


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "no column M, N, K; it is empty"),
        (b"M,N\n1,2\n", "no column K; has M, N"),
        (b"M,N,K,predicted\n1,2,3,4\n", "column predicted: allowed: each once, none predicted"),
        (b"M,N,K,N\n1,2,3,4\n", "column N: allowed: each once"),
        (b"\xff\xfeM", "no file of comma-separated UTF-8 text"),
    ],
)
def test_a_file_that_has_no_rows_of_the_set_is_refused(
    tmp_path: Path, text: bytes, why: str
) -> None:
    given, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    given.write_bytes(text)
    done = CliRunner().invoke(main, ["tpu_v4_gemm", str(given), "-o", str(out)])
    assert done.exit_code == 2
    assert f"{given}: {why}" in done.stderr
    assert not out.exists()


def test_what_no_chip_was_measured_with_is_said_too(tmp_path: Path) -> None:
    """Heads and keys that don't fit the chip as others do; fp8 goes as bf16, int8 at twice that."""
    given, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    for name, lines in (
        ("tpu_v3", "workload\nattention_8x1024x64\nattention_8x2048x64\n"),
        ("tpu_v6e_attention", "phase,chunk,kv,batch\nprefill,256,65536,1\ndecode,1,131072,1\n"),
    ):
        given.write_text(lines, encoding="utf-8")
        done = CliRunner().invoke(main, [name, str(given), "-o", str(out)])
        assert done.stderr == ""
    sizes = {"M": "1024", "N": "8192", "K": "2048"}
    rows = [
        sizes | {"chip": "v6e", "timing": "device trace", "dtype": dtype}
        for dtype in ("bf16", "fp8", "int8")
    ]
    plain, float8, int8 = predict_each("tpu_v6e_v7_gemm", rows)
    assert isinstance(plain, float)
    assert isinstance(float8, float)
    assert isinstance(int8, float)
    assert 0.9 * plain < float8 <= plain
    assert int8 < 0.7 * plain


def test_books_are_those_of_the_kernels_also_when_they_are_remembered() -> None:
    """A GEMM of a TPU v3 is one kernel: all of its cycles are booked, the second time, too."""
    rows = [{"workload": "gemm_384x256x128"}] * 2
    first, second = limits_each("tpu_v3", rows)
    assert first == second
    assert [sum(first.values())] * 2 == predict_each("tpu_v3", rows)


def test_arrays_are_laid_out_with_the_least_padding() -> None:
    """By hand: 24 x 16 x 16 as 16 x 16 rows of 24, which are padded to 128: 16 * 16 * 128."""
    on = load_accelerator("tpu_v4")
    for shape, elements in (((24, 16, 16), 16 * 16 * 128), ((320, 320), 384 * 320)):
        workload = vector_workload("relu", shape)
        (group,) = simulate(workload, on, "deployed").mapping.groups
        sizes = {**workload.operators[0].ranks, **group.padded}
        assert math.prod(sizes.values()) == elements


def _errors(file: str, first: str | tuple[str, ...]) -> list[float]:
    with (SILICON / file).open(newline="", encoding="utf-8") as csv_file:
        rows = [*csv.reader(csv_file)][1:]
    return [abs(float(row[2]) / float(row[1]) - 1) for row in rows if row[0].startswith(first)]


@pytest.mark.parametrize(
    ("chip", "operators", "file", "first"),
    [
        ("tpu_v3", "GEMM", "tpu_v3/tpu_v3.csv", "gemm_"),
        ("tpu_v3", "convolution", "tpu_v3/tpu_v3.csv", "conv_"),
        ("tpu_v3", "attention", "tpu_v3/tpu_v3.csv", "attention_"),
        ("tpu_v3", "row-wise", "tpu_v3/tpu_v3.csv", ("layernorm_", "softmax_")),
        ("tpu_v4", "GEMM", "tpu_v4/tpu_v4_gemm.csv", ""),
        ("tpu_v4", "elementwise", "tpu_v4/tpu_v4_vector.csv", ""),
        ("tpu_v4", "row-wise", "tpu_v4/tpu_v4_layernorm.csv", ""),
        ("tpu_v5e", "GEMM", "tpu_v5e/tpu_v5e_gemm.csv", "xla"),
        ("tpu_v6e", "GEMM", "tpu_v7/tpu_v6e_v7_gemm.csv", "v6e"),
        ("tpu_v6e", "attention", "tpu_v6e/tpu_v6e_attention.csv", ""),
        ("tpu_v7_chiplet", "GEMM", "tpu_v7/tpu_v6e_v7_gemm.csv", "v7"),
        ("tpu_v7_chiplet", "GEMM", "tpu_v7/tpu_v7_google_gemm.csv", ""),
        ("tpu_v3", "network", "tpu_v3/tpu_v3.csv", ("bert_", "resnet")),
        ("tpu_v6e", "network", "tpu_v6e/tpu_v6e_block.csv", ""),
        ("coral_edge_tpu", "network", "coral/coral.csv", ""),
        ("coral_dev_board", "network", "coral/coral_board.csv", ""),
        ("vta_16", "network", "vta/vta.csv", ""),
        ("tpu_v4", "copy", "tpu_v4/tpu_v4_copy.csv", ""),
        ("tpu_v7_chiplet", "copy", "tpu_v7/tpu_v7_google_copy.csv", ""),
    ],
)
def test_what_a_run_says_of_measured_rows_is_what_the_rows_say(
    chip: str, operators: str, file: str, first: str | tuple[str, ...]
) -> None:
    errors = _errors(file, first)
    (said,) = (
        rows
        for rows in load_accelerator(chip).compiler.measured
        if (rows.operators, rows.rows) == (operators, len(errors))
    )
    assert said.median_percent == round(100 * float(np.median(errors)), 1)
    assert said.within_90_percent == round(100 * float(np.quantile(errors, 0.9)), 1)


def test_readme_says_what_a_run_of_a_measured_row_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of the chips are rows of `validation/silicon`, as the table rounds them."""
    rows = re.findall(
        r"\| `(\w+ --workload .*)` \| ([\d.]+ [mu]s); ([\d.]+)",
        (REPOSITORY / "README.md").read_text("utf-8"),
    )
    assert len(rows) == 9
    monkeypatch.chdir(REPOSITORY)
    for arguments, printed, chip in rows:
        done = CliRunner().invoke(simaccel, ["run", "--hw", *arguments.split()])
        first, second, third = done.output.splitlines()[:3]
        assert f": {printed} in all" in third or second.startswith(f"{printed} ("), first
        assert float(printed.split()[0]) == pytest.approx(float(chip), rel=0.11), arguments


def test_a_file_is_the_network_that_vta_runs() -> None:
    text = (SILICON / "vta" / "resnet18.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text) == quantised(linked_resnet(18))


def test_sets_are_runs_of_workloads_on_files() -> None:
    """They import nothing that makes trees, and set no field: other sizes have files of their own.

    Mappings are data of the source: Gemmini's strings, and the blocks of a Pallas kernel in a file.
    """
    inside = re.compile(r"simaccel\.(mapping|program|schedulers|search|experiment)")
    settings = re.compile(r"with_settings|model_copy|settings|load(ed|_accelerator)\([^()]*,")
    code = {
        path.relative_to(SILICON).as_posix(): path.read_text(encoding="utf-8")
        for path in SILICON.rglob("*.py")
        if not path.name.startswith("test_")
    }
    assert not {name for name, text in code.items() if inside.search(text)}
    assert not {name for name, text in code.items() if settings.search(text)}


def test_a_size_of_nvdla_that_has_no_file_is_refused() -> None:
    row = {"macs": "2048", "conv_buffer_kib": "512", "dram_gb_per_s": "10"}
    (said,) = predict_each("nvdla_networks", [row])
    assert said == "dram_gb_per_s of nvdla_2048_at_20: got 10; allowed: 20"


def test_blocks_of_a_kernel_are_taken_as_a_user_gives_them() -> None:
    """`run --mapping FILE`, and the row of the guide: 0.0918 s, a host's 103 us in it."""
    file = SILICON / "tpu_v5e" / "pallas_128x128x128.yaml"
    sizes = ("--workload", "gemm", "--shape", "M=8192,K=8192,N=8192")
    done = CliRunner().invoke(
        simaccel, ["run", "--hw", "tpu_v5e", *sizes, "--mapping", str(file), "--json"]
    )
    seconds = json.loads(done.output)["seconds"]
    assert seconds + 103e-6 == pytest.approx(0.0918358, rel=0.002)
