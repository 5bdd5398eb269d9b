"""A user's mistake ends with exit code 2 and a message that says what is allowed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from click.testing import Result

Call = Callable[[str], Result]

REPOSITORY = Path(__file__).parents[2]
GEMM = "--hw toy --workload gemm --shape M=9,K=7,N=5"
BERT = "--hw edge --workload bert"
SIZE = "a whole number from 1 to 1099511627776"


def refused(result: Result) -> list[str]:
    """Give the lines of a refusal; nothing else was printed."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines
    assert all(line.startswith("error: ") for line in lines)
    return [line.removeprefix("error: ") for line in lines]


@pytest.mark.parametrize(
    ("line", "messages"),
    [
        pytest.param(
            "run --hw nowhere.yaml --workload bert",
            ["nowhere.yaml: file: got nothing; allowed: an existing YAML file"],
            id="missing accelerator file",
        ),
        pytest.param(
            "run --hw toy --workload nowhere.yaml",
            ["nowhere.yaml: file: got nothing; allowed: an existing YAML file"],
            id="missing workload file",
        ),
        pytest.param(
            f"run {GEMM} --mapping nowhere.yaml",
            ["nowhere.yaml: file: got nothing; allowed: an existing mapping file"],
            id="missing mapping file",
        ),
        pytest.param(
            "trace info nowhere.h5",
            ["nowhere.h5: no such file; allowed: a trace file"],
            id="missing trace file",
        ),
        pytest.param(
            "run --hw edg --workload bert",
            [
                (
                    "hwconfigs: accelerator: got 'edg'; allowed: an accelerator or the path of a "
                    ".yaml file; did you mean 'edge'?"
                )
            ],
            id="unknown accelerator",
        ),
        pytest.param(
            f"run {GEMM} --set buffer.capacty_bytes=7",
            [
                (
                    "--set buffer.capacty_bytes: buffer.capacty_bytes: got '7'; "
                    "did you mean 'buffer.capacity_bytes'?"
                )
            ],
            id="unknown key to set",
        ),
        pytest.param(
            f"run {GEMM} --set buffer.capacity_bytes",
            ["--set: override: got 'buffer.capacity_bytes'; allowed: path.to.field=value"],
            id="nothing to set",
        ),
        pytest.param(
            f"run {GEMM} --set dram.bandwidth_bytes_per_second=-5",
            [
                (
                    "--set dram.bandwidth_bytes_per_second: dram.bandwidth_bytes_per_second: "
                    "got -5; allowed: a positive amount with a unit (B/s, KB/s, MB/s, GB/s, "
                    "TB/s), whole and at most 2^50 B/s, or unlimited"
                )
            ],
            id="negative bandwidth",
        ),
        pytest.param(
            f"run {GEMM} --set array.rows=0",
            ["--set array.rows: array.rows: got 0; allowed: an integer >= 1 and <= 1048576"],
            id="zero PEs",
        ),
        pytest.param(
            "run --hw toy --workload brt",
            [
                (
                    "command line: --workload: got 'brt'; allowed: a model, a network, gemm, "
                    "bmm, gbmm, conv or a .yaml, .csv, .onnx or .m file; did you mean 'bert'?"
                )
            ],
            id="unknown workload",
        ),
        pytest.param(
            "run --hw toy --workload rsnet50 --batch 0",
            [
                (
                    "command line: --workload: got 'rsnet50'; allowed: a model, a network, gemm, "
                    "bmm, gbmm, conv or a .yaml, .csv, .onnx or .m file; did you mean 'resnet50'?"
                ),
                f"command line: --batch: got 0; allowed: {SIZE}",
            ],
            id="unknown network",
        ),
        pytest.param(
            "run --hw toy --workload alexnet --set layer=conv9 --batch 1000000000000",
            [
                (
                    "command line: --batch: got 1000000000000; "
                    "allowed: a whole number from 1 to 1073741824"
                ),
                (
                    "command line: --set layer: got 'conv9'; did you mean 'conv5'? "
                    "(allowed: conv1, conv2, conv3, conv4, conv5, fc6, fc7, fc8)"
                ),
            ],
            id="unknown layer and huge batch",
        ),
        pytest.param(
            "run --hw toy --workload alexnet --set layer=xyz",
            [
                (
                    "command line: --set layer: got 'xyz'; allowed: one of conv1, conv2, conv3, "
                    "conv4, conv5, fc6, fc7, fc8"
                )
            ],
            id="unknown layer",
        ),
        pytest.param(
            "run --hw toy --workload deepbench --set layer=xyz --batch 2",
            [
                (
                    "command line: --batch: got 2; allowed: 1; the kernels of deepbench state "
                    "their batches"
                ),
                (
                    "command line: --set layer: got 'xyz'; allowed: one of 466 layers: "
                    "training_gemm_1760x16x1760, training_gemm_1760x32x1760, "
                    "training_gemm_1760x64x1760, ... (simaccel workload show deepbench)"
                ),
            ],
            id="unknown layer of many",
        ),
        pytest.param(
            "run --hw toy --workload vgg16 --seq-len 4 --shape M=4",
            [
                (
                    "command line: --seq-len: got 4; "
                    "allowed: nothing with vgg16; it has no attention blocks"
                ),
                (
                    "command line: --shape: got 'M=4'; allowed: nothing with vgg16; "
                    "only the workloads gemm, bmm, gbmm and conv have a shape"
                ),
            ],
            id="a network with a length",
        ),
        pytest.param(
            "run --hw toy --workload vgg16 --scope la",
            ["command line: --scope: got 'la'; allowed: one of layers, model"],
            id="a network with the scope of a model",
        ),
        pytest.param(
            "run --hw toy --workload deepbench --scope model",
            [
                (
                    "command line: --scope: got 'model'; allowed: layers; what lies between the "
                    "layers of deepbench is not known here"
                ),
            ],
            id="kernels as a whole network",
        ),
        pytest.param(
            f"run {BERT} --set layer=L",
            [
                (
                    "command line: --set layer: got 'L'; allowed: nothing with bert; "
                    "only networks, topologies and descriptions have layers to choose"
                )
            ],
            id="a layer of a model",
        ),
        pytest.param(
            "run --hw toy --workload nowhere.csv",
            ["nowhere.csv: file: got nothing; allowed: an existing CSV file"],
            id="missing topology",
        ),
        pytest.param(
            f"run {GEMM} --dataflow flt",
            ["command line: --dataflow: got 'flt'; did you mean 'flat'?"],
            id="unknown dataflow",
        ),
        pytest.param(
            f"run {GEMM} --dataflow flex,flat --trace t.h5",
            [
                (
                    "command line: --dataflow: got 'flex,flat'; "
                    "allowed: one dataflow; `simaccel compare` takes several"
                )
            ],
            id="several dataflows with one trace",
        ),
        pytest.param(
            f"run {BERT} --scope blok",
            [
                (
                    "command line: --scope: got 'blok'; did you mean 'block'? "
                    "(allowed: la, block, model)"
                )
            ],
            id="unknown scope",
        ),
        pytest.param(
            "run --hw toy --workload gemm --shape M=0,K=x,N=5",
            [
                f"--shape: M: got 0; allowed: {SIZE}",
                f"--shape: K: got 'x'; allowed: {SIZE}",
            ],
            id="shape with zero and text",
        ),
        pytest.param(
            "run --hw toy --workload conv --shape M=0,c=4,P=1000000000000,R=3,S=3,strid=2",
            [
                (
                    "--shape: c: got '4'; did you mean 'C'? "
                    "(allowed: M, C, P, Q, R, S, G, N, stride, dilation)"
                ),
                (
                    "--shape: strid: got '2'; did you mean 'stride'? "
                    "(allowed: M, C, P, Q, R, S, G, N, stride, dilation)"
                ),
                "--shape: M: got 0; allowed: a whole number from 1 to 1073741824",
                ("--shape: P: got 1000000000000; allowed: a whole number from 1 to 1073741824"),
                "--shape: C: got nothing; allowed: a whole number from 1 to 1073741824",
                "--shape: Q: got nothing; allowed: a whole number from 1 to 1073741824",
            ],
            id="shape of a convolution",
        ),
        pytest.param(
            "run --hw toy --workload conv",
            [
                (
                    "command line: --shape: got nothing; allowed: the sizes of the conv, "
                    "as in --shape M=64,C=3,P=112,Q=112,R=7,S=7,stride=2"
                )
            ],
            id="conv without shape",
        ),
        pytest.param(
            "run --hw toy --workload gemm --shape M=9,N=5",
            [f"--shape: K: got nothing; allowed: {SIZE}"],
            id="shape without K",
        ),
        pytest.param(
            "run --hw toy --workload gemm",
            [
                (
                    "command line: --shape: got nothing; allowed: the sizes of the gemm, "
                    "as in --shape M=512,K=64,N=512"
                )
            ],
            id="gemm without shape",
        ),
        pytest.param(
            f"run {BERT} --seq-len 0",
            [f"command line: --seq-len: got 0; allowed: {SIZE}"],
            id="sequence length 0",
        ),
        pytest.param(
            f"run {BERT} --seq-len many",
            [f"command line: --seq-len: got 'many'; allowed: {SIZE}"],
            id="sequence length as text",
        ),
        pytest.param(
            f"run {BERT} --seq-len 512,4096",
            [f"command line: --seq-len: got '512,4096'; allowed: {SIZE}"],
            id="two sequence lengths",
        ),
        pytest.param(
            f"run {BERT} --batch -1",
            [f"command line: --batch: got -1; allowed: {SIZE}"],
            id="negative batch",
        ),
        pytest.param(
            f"run {BERT} --set bytes-per-element=99 --set bytes-per-element=Z9=1",
            [
                (
                    "command line: --set bytes-per-element: got 99; allowed: a whole number from 1 "
                    "to 16"
                ),
                (
                    "command line: --set bytes-per-element Z9: got 1; did you mean 'Z'? "
                    "(allowed: X, Wq, Wk, Wv, Wo, W1, W2, Q, K, V, S, P, Z, Y, F, U)"
                ),
            ],
            id="bytes per element",
        ),
        pytest.param(
            f"run {BERT} --shape M=1,K=1,N=1",
            [
                (
                    "command line: --shape: got 'M=1,K=1,N=1'; "
                    "allowed: nothing with bert; "
                    "only the workloads gemm, bmm, gbmm and conv have a shape"
                )
            ],
            id="a model with a shape",
        ),
        pytest.param(
            f"run {GEMM} --seq-len 5",
            [
                (
                    "command line: --seq-len: got 5; "
                    "allowed: nothing with gemm; --shape says it (B is the batch)"
                )
            ],
            id="a gemm with a length",
        ),
        pytest.param(
            f"run {GEMM} --mapping m.yaml --dataflow flat --set pipeline",
            [
                (
                    "command line: --dataflow: got 'flat'; "
                    "allowed: nothing with --mapping, which sets it"
                ),
                (
                    "command line: --set pipeline: got True; "
                    "allowed: nothing with --mapping, which sets it"
                ),
            ],
            id="mapping and dataflow",
        ),
        pytest.param(
            "run --hw tpu_v5e --chips 4 --workload gemm --shape M=4096,K=1024,N=1024 --check",
            [
                (
                    "workload gemm has 4,294,967,296 MACs; a check executes each of them, allowed: "
                    "at most 100,000,000; choose a smaller batch, seq_len, scope or shape"
                )
            ],
            id="too large to check",
        ),
        pytest.param(
            f"run {GEMM} --dataflow naive --set buffer.capacity_bytes=64",
            ["gemm: a fold's weights and one row need 96 B, the buffer has 64 B"],
            id="buffer smaller than one tile",
        ),
        pytest.param(
            "run --hw toy --workload bert --scope la --set buffer.capacity_bytes=64",
            ["L+softmax+A: the smallest FLAT-tile needs 2304 B, the buffer has 64 B"],
            id="buffer smaller than one FLAT-tile",
        ),
    ],
)
def test_refused(cli: Call, line: str, messages: list[str]) -> None:
    assert refused(cli(line)) == messages


def test_faults_of_all_options_are_reported_together(cli: Call) -> None:
    line = "run --hw edge --workload brt --seq-len 0 --dataflow flt --set array.rows=-1"
    found = refused(cli(line))
    assert [message.split(": got")[0] for message in found] == [
        "command line: --workload",
        "command line: --seq-len",
        "--set array.rows: array.rows",
        "command line: --dataflow",
    ]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("name: toy", "name: [toy"), ": line 2: got "),
        (
            ("  rows: 4", "  rows: 4\n  rowz: 4"),
            ": array.rowz: got 4; did you mean 'rows'?",
        ),
        (("  rows: 4\n", ""), ": array.rows: got nothing; allowed: an integer >= 1"),
        (("  rows: 4", "  rows: 0"), ": array.rows: got 0; allowed: an integer >= 1"),
        (("  rows: 4", "  rows: four"), ": array.rows: got 'four'; allowed: an integer >= 1"),
        (("_second: 8 GB/s", "_second: -8 GB/s"), "_second: got '-8 GB/s'; allowed: a positive"),
        (("1 KiB\n", "16 B\n"), ": buffer.capacity_bytes: got 16; allowed: at least 32 B"),
    ],
)
def test_an_accelerator_file_is_refused(
    cli: Call, tmp_path: Path, edit: tuple[str, str], message: str
) -> None:
    text = (REPOSITORY / "hwconfigs" / "toy.yaml").read_text()
    assert edit[0] in text
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(*edit))
    found = refused(cli(f"run --hw {file} --workload gemm --shape M=9,K=7,N=5"))
    assert found[0].startswith(str(file))
    assert message in found[0]


def test_a_workload_file_is_refused(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("kind: gemm\nshape: {M: 0, K: 7, N: 5}\nbyte_per_element: 2\n")
    found = refused(cli(f"run --hw toy --workload {file}"))
    assert len(found) == 2
    assert any("shape.M: got 0" in message for message in found)
    assert any("did you mean 'bytes_per_element'?" in message for message in found)
    file.write_text("kind: gemm\nshape: {M: 9, K: 7, N: 5}\nbytes_per_element: 2\n")
    sizes = refused(cli(f"run --hw toy --workload {file} --seq-len 5 --batch 2"))
    assert [message.split(": got")[0] for message in sizes] == [
        *("command line: --seq-len", "command line: --batch")
    ]
    (element,) = refused(cli(f"run --hw toy --workload {file} --set bytes-per-element=1"))
    assert "the file sets it" in element


def _map(cli: Call, tmp_path: Path, options: str = GEMM) -> Path:
    file = tmp_path / "mapping.yaml"
    assert cli(f"map {options} -o {file}").exit_code == 0
    return file


def test_a_mapping_for_another_workload_is_refused(cli: Call, tmp_path: Path) -> None:
    file = _map(cli, tmp_path)
    found = refused(cli(f"run --hw toy --workload gemm --shape M=9,K=7,N=6 --mapping {file}"))
    assert found[0].startswith("the mapping is for workload gemm (")
    assert "not for gemm (" in found[0]


def test_a_tile_larger_than_its_rank_is_refused(cli: Call, tmp_path: Path) -> None:
    file = _map(cli, tmp_path)
    file.write_text(file.read_text().replace("- do gemm", "- loop n 6\n  - do gemm"))
    (message,) = refused(cli(f"run {GEMM} --mapping {file}"))
    assert message.startswith(f"{file}: groups[0].tree[")
    assert message.endswith("]: got 'loop n 6'; allowed: pieces of 1 to 5, the size of n")


@pytest.mark.parametrize("command", ["run", "estimate", "run --dry-run"])
def test_a_mapping_that_does_not_fit_is_refused_with_its_tiles(
    cli: Call, tmp_path: Path, command: str
) -> None:
    large = "--hw toy --workload gemm --shape M=30,K=24,N=20"
    file = _map(cli, tmp_path, f"{large} --set buffer.capacity_bytes=64~KiB")
    (message,) = refused(cli(f"{command} {large} --mapping {file}"))
    assert message.startswith("gemm: tiles need ")
    assert "the buffer has 1024 B" in message
    assert "B too many: " in message
    assert re.search(r": A \d x \d+ B, B \d x \d+ B, C \d x \d+ B$|C .*A .*B", message)


def test_a_mapping_file_with_unknown_keys_is_refused(cli: Call, tmp_path: Path) -> None:
    file = _map(cli, tmp_path)
    file.write_text(file.read_text().replace("- operators:", "- operator:"))
    found = refused(cli(f"run {GEMM} --mapping {file}"))
    assert any("did you mean 'operators'?" in message for message in found)


def test_a_trace_that_exists_is_kept(cli: Call, tmp_path: Path) -> None:
    file = tmp_path / "run.h5"
    file.write_text("precious")
    for line in (f"run {GEMM} --trace {file}", f"run {GEMM} --trace {file} --dry-run"):
        (message,) = refused(cli(line))
        said = "output: got 'a file that exists'; allowed: a new file, or --force"
        assert message == f"{file}: {said}"
    assert file.read_text() == "precious"
    assert cli(f"run {GEMM} --trace {file} --force").exit_code == 0
    assert h5py.is_hdf5(file)


def test_a_mapping_file_that_exists_is_kept(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("mapping.yaml")
    file.write_text("precious")
    assert refused(cli(f"map {GEMM} -o {file}")) == [
        "mapping.yaml: output: got 'a file that exists'; allowed: a new file, or --force"
    ]
    assert cli(f"map {GEMM} -o {file} --force").exit_code == 0
    assert file.read_text().startswith("workload:")


@pytest.mark.parametrize("command", ["run --trace", "map -o"])
def test_a_path_that_can_not_be_written_is_refused(cli: Call, tmp_path: Path, command: str) -> None:
    verb, option = command.split()
    missing = tmp_path / "nowhere" / "out"
    (message,) = refused(cli(f"{verb} {GEMM} {option} {missing}"))
    assert message.startswith(str(missing))
    (message,) = refused(cli(f"{verb} {GEMM} {option} {tmp_path} --force"))
    assert message.startswith(str(tmp_path))
    assert not any(tmp_path.iterdir())


def test_a_folder_that_can_not_be_written_is_refused(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.h5"
    monkeypatch.setattr(os, "access", lambda *_: False)
    (message,) = refused(cli(f"run {GEMM} --trace {file}"))
    assert message.startswith(f"{file}: output folder: got ")
    assert message.endswith("allowed: a writable folder")


def test_a_trace_that_is_no_trace_is_refused(cli: Call, tmp_path: Path) -> None:
    good = tmp_path / "good.h5"
    assert cli(f"run {GEMM} --trace {good}").exit_code == 0
    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    (message,) = refused(cli(f"trace info {text}"))
    assert "is not an HDF5 file; allowed: a trace file" in message
    cut = tmp_path / "cut.h5"
    cut.write_bytes(good.read_bytes()[: good.stat().st_size // 2])
    (message,) = refused(cli(f"trace info {cut}"))
    assert message.startswith(f"{cut}: damaged: ")
    other = tmp_path / "other.h5"
    shutil.copy(good, other)
    with h5py.File(other, "r+") as file:
        file.attrs["schema_version"] = 99
    (message,) = refused(cli(f"trace info {other}"))
    assert "has schema version 99, of a newer simaccel; allowed: schema version" in message


@pytest.mark.parametrize(
    "option", ["--set {}=1", "--set objective={}", "--shape {}=1", "--workload {}"]
)
def test_a_long_value_makes_a_short_message(cli: Call, option: str) -> None:
    beside = "" if option.startswith("--workload") else "--workload gemm"
    ran = cli(f"run --hw edge {beside} {option.format('a' * 5000)}")
    assert ran.exit_code == 2
    assert len(ran.stderr) < 1400


def test_unknown_options_get_a_suggestion(cli: Call) -> None:
    result = cli(f"run {BERT} --seqlen 5")
    assert result.exit_code == 2
    assert "--seq-len" in result.stderr
    assert cli("run --workload bert").exit_code == 2


@pytest.mark.parametrize("options", ["--hw nowhere.yaml --workload bert", "--hw edge --workload x"])
def test_a_process_prints_no_traceback(options: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "simaccel", "run", *options.split(), "--json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
