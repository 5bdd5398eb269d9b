"""Mistakes end with exit code 2 and say what is allowed: here with files, in `refusals` as data."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from simaccel.cli.rules import RULES
from simaccel.hardware.presets import template
from tests.cli.conftest import Call
from tests.data_files import data_beside

DATA = data_beside(__file__)

REPOSITORY = Path(__file__).parents[2]
GEMM = "--hw toy --workload gemm --shape M=9,K=7,N=5"


@pytest.mark.parametrize(("edit", "message"), DATA["accelerators"])
def test_an_accelerator_file_is_refused(
    cli: Call, tmp_path: Path, edit: tuple[str, str], message: str
) -> None:
    text = (REPOSITORY / "hwconfigs" / "toy.yaml").read_text()
    assert edit[0] in text
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(*edit))
    found = cli.messages(f"run --hw {file} --workload gemm --shape M=9,K=7,N=5")
    assert found[0].startswith(str(file))
    assert message in found[0]


def _map(cli: Call, tmp_path: Path, options: str = GEMM) -> Path:
    file = tmp_path / "mapping.yaml"
    assert cli(f"map {options} -o {file}").exit_code == 0
    return file


def test_a_mapping_for_another_workload_is_refused(cli: Call, tmp_path: Path) -> None:
    file = _map(cli, tmp_path)
    found = cli.messages(f"run --hw toy --workload gemm --shape M=9,K=7,N=6 --mapping {file}")
    assert found[0].startswith("the mapping is for workload gemm (")
    assert found[0].endswith("), which has other sizes or formats")
    assert "not for gemm (" in found[0]


@pytest.mark.parametrize("command", ["run", "estimate", "run --dry-run"])
def test_a_mapping_that_does_not_fit_is_refused_with_its_tiles(
    cli: Call, tmp_path: Path, command: str
) -> None:
    """All of A, 30 x 24 elements; of C 30 x 4, of B a fold of 4 x 4, each in two slots."""
    large = "--hw toy --workload gemm --shape M=30,K=24,N=20"
    file = _map(cli, tmp_path, f"{large} --set buffer.capacity_bytes=64~KiB --dataflow strips")
    (message,) = cli.messages(f"{command} {large} --mapping {file}")
    assert message == (
        "gemm: tiles need 1984 B, the buffer has 1024 B, 960 B too many: "
        "A 1 x 1440 B, C 2 x 240 B, B 2 x 32 B"
    )


def test_a_mapping_file_with_unknown_keys_is_refused(cli: Call, tmp_path: Path) -> None:
    file = _map(cli, tmp_path)
    file.write_text(file.read_text().replace("- operators:", "- operator:"))
    found = cli.messages(f"run {GEMM} --mapping {file}")
    assert any("did you mean 'operators'?" in message for message in found)


@pytest.mark.parametrize("command", ["run --trace", "map -o"])
def test_a_path_that_can_not_be_written_is_refused(cli: Call, tmp_path: Path, command: str) -> None:
    verb, option = command.split()
    missing = tmp_path / "nowhere" / "out"
    (message,) = cli.messages(f"{verb} {GEMM} {option} {missing}")
    assert message.startswith(str(missing))
    (message,) = cli.messages(f"{verb} {GEMM} {option} {tmp_path} --force")
    assert message.startswith(str(tmp_path))
    assert not any(tmp_path.iterdir())


def test_a_folder_that_can_not_be_written_is_refused(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.h5"
    monkeypatch.setattr(os, "access", lambda *_: False)
    (message,) = cli.messages(f"run {GEMM} --trace {file}")
    assert message.startswith(f"{file}: output folder: got ")
    assert message.endswith("allowed: a writable folder")


@pytest.mark.parametrize(
    "option", ["--set {}=1", "--set objective={}", "--shape {}=1", "--workload {}"]
)
def test_a_long_value_makes_a_short_message(cli: Call, option: str) -> None:
    beside = "" if option.startswith("--workload") else "--workload gemm"
    assert len(cli.refused(f"run --hw edge {beside} {option.format('a' * 5000)}")) < 1400


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


FILES = sorted(Path(__file__).with_name("refusals").glob("*.yaml"))
REFUSALS: dict[str, Any] = {
    line: said
    for path in FILES
    for line, said in yaml.safe_load(path.read_text(encoding="utf-8")).items()
}
USERS: dict[str, str] = yaml.safe_load(
    Path(__file__).with_name("data").joinpath("refused_files.yaml").read_text(encoding="utf-8")
)
"""Files of users by name, which stand beside the command."""


@pytest.mark.parametrize(("line", "said"), REFUSALS.items(), ids=[*REFUSALS])
def test_refused(cli: Call, line: str, said: list[str], tmp_path: Path) -> None:
    """And nothing is written."""
    for name in ("README.md", "docs", "hwconfigs", "tests", "traces", "validation"):
        Path(name).symlink_to(REPOSITORY / name)
    for name, text in USERS.items():
        Path(name).write_text(text)
    before = {path.name for path in tmp_path.iterdir()}
    result = cli(line)
    assert (result.exit_code, result.stdout) == (2, "")
    assert {path.name for path in tmp_path.iterdir()} == before
    lines = [each for each in result.stderr.splitlines() if each.strip()]
    usage = ("Usage: ", "Try ")  # of click, before its own message
    found = [each for each in lines if not each.startswith(usage)]
    found = [each.replace(f"{REPOSITORY}/", "") for each in found]
    texts = [each.removeprefix("error: ").removeprefix("Error: ") for each in found]
    begun = [each.removesuffix("...") for each in said]
    assert [
        each[: len(begin)] if begin != whole else each
        for each, begin, whole in zip(texts, begun, said, strict=True)
    ] == begun


def test_each_rule_is_broken_by_a_line() -> None:
    """A rule that no line breaks may be one that nothing can break."""
    said = [text.replace("--set ", "--") for lines in REFUSALS.values() for text in lines]
    for rule in RULES:
        words = [
            f"nothing {'without' if rule.needs else 'with'} --{name.lstrip('-').replace('=', ' ')}"
            for name in rule.beside.split()
        ] or [rule.reason]
        options = rule.options.split() if rule.options != "*" else [""]
        assert any(
            f"{option}: got" in text and word in text
            for text in said
            for word in words
            for option in options
        ), rule


CUBE = "--workload gemm --shape M=64,K=64,N=64"


def test_a_section_that_a_file_lacks_may_be_a_name(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "npu.yaml"
    lines = template("npu", ["edge"]).splitlines()
    path.write_text("\n".join(one for one in lines if not one.startswith("energy:")))
    result = cli(f"run --hw {path} {CUBE}")
    (line,) = result.stderr.splitlines()
    assert line.endswith("energy: got nothing; allowed: a section, or a name such as 45nm")
    assert cli(f"run --hw {path} --set energy=45nm {CUBE}").exit_code == 0


def test_a_list_of_chips_is_a_sweep(cli: Call) -> None:
    """Weights of a layer, bf16: 4 of 4096^2 and 3 of 4096 x 11008, 386 MiB; half of them on two."""
    runs = "compare --hw tpu_v5e --workload llama-2-7b --phase decode --kv-len 8 --json"
    found = json.loads(cli(f"{runs} --chips 1,2").stdout)
    swept = json.loads(cli(f"{runs} --sweep chips=1,2").stdout)
    assert [run["cycles"] for run in found] == [run["cycles"] for run in swept]
    weights = [run["dram_by_class"]["weights"] for run in found]
    assert [round(one / 2**20) for one in weights] == [386, 193]
