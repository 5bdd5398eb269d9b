"""Messages: one mistake is one line, with the right form of what is written in another way."""

import json
from pathlib import Path

import pytest

from simaccel import load_accelerator
from simaccel.hardware.presets import template
from tests.cli.conftest import Call

GEMM = "--workload gemm --shape M=64,K=64,N=64"


def test_a_part_that_is_unknown_in_a_file_is_one_line(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "npu.yaml"
    path.write_text(template("npu", ["edge"]).replace("2 x DDR4", "1 x DDX4"), encoding="utf-8")
    result = cli(f"run --hw {path} {GEMM}")
    (line,) = result.stderr.splitlines()
    assert "dram: got '1 x DDX4" in line


def test_a_section_that_a_file_lacks_may_be_a_name(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "npu.yaml"
    lines = template("npu", ["edge"]).splitlines()
    path.write_text("\n".join(one for one in lines if not one.startswith("energy:")))
    result = cli(f"run --hw {path} {GEMM}")
    (line,) = result.stderr.splitlines()
    assert line.endswith("energy: got nothing; allowed: a section, or a name such as 45nm")
    assert cli(f"run --hw {path} --set energy=45nm {GEMM}").exit_code == 0


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        # 32 x 32 operands of 2 B; a piece of a channel, 256 B, doesn't fit either
        ("buffer.capacity_bytes=64", "at least 2 KiB, one 2-byte operand of a 32 x 32 fold"),
        ("precision=int3", "its fields, precision.weights, precision.activations"),
        ("cores=4", "its fields, cores.count, "),
        ("cores.noc=3", "its fields, cores.noc.multicast, "),
        ("compiler.attention=no", "its fields, compiler.attention.heads_at_once, "),
    ],
)
def test_one_mistake_in_a_setting_is_one_line(cli: Call, setting: str, told: str) -> None:
    result = cli(f"run --hw edge {GEMM} --set {setting}")
    (line,) = result.stderr.splitlines()
    assert f"allowed: {told}" in line


def test_channels_of_a_part_need_no_blanks() -> None:
    one = load_accelerator("edge", ["dram=2xHBM2"])
    assert one == load_accelerator("edge", ["dram=2 x HBM2"])
    assert one.dram.channels == 2


@pytest.mark.parametrize("option", ["--sweep", "--axis"])
def test_a_field_that_was_replaced_is_told_in_a_sweep(cli: Call, option: str) -> None:
    command = "compare" if option == "--sweep" else "explore"
    result = cli(f"{command} --hw edge {GEMM} {option} chips.count=1,2")
    assert "allowed: chips: a number of chips, or their shape such as 4x4x4" in result.stderr


def test_a_list_of_chips_is_a_sweep(cli: Call) -> None:
    """Weights of a chip, bf16: 12 hidden^2 of GPT-2's block, 13.5 MiB, and half of them on two."""
    runs = "compare --hw tpu_v5e --workload gpt2 --phase decode --kv-len 8 --metric fits --json"
    found = json.loads(cli(f"{runs} --chips 1,2").stdout)
    swept = json.loads(cli(f"{runs} --sweep chips=1,2").stdout)
    assert [run["cycles"] for run in found] == [run["cycles"] for run in swept]
    weights = [run["dram_by_class"]["weights"] for run in found]
    assert [round(one / 2**20, 1) for one in weights] == [13.5, 6.8]
