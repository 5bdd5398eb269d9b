"""Messages: one mistake is one line, with the right form of what is written in another way."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from simaccel.hardware.presets import template

Call = Callable[[str], Result]
GEMM = "--workload gemm --shape M=64,K=64,N=64"
BYTES = "a positive amount with a unit (B, KiB, MiB, GiB), whole and at most 2^50 B"
TWO = "did you mean '2 x LPDDR5-6400x16'?"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--set dram=LPDDR5-6400x32", f"allowed: a section, or {TWO}"),
        ("--set buffer.capacity_bytes=64KB", f"allowed: {BYTES}, such as 64 KiB, or unlimited"),
        ("--set buffer.capacity_bytes=1e6", f"{BYTES}, such as 1000000 B, or unlimited"),
        ("--set clock_hz=1ghz", "at most 2^50 Hz, such as 1 GHz"),
        ("--set dram.bandwidth_bytes_per_second=1.6", "at most 2^50 B/s, such as 1.6 GB/s, or"),
        ("--set dram.bandwidth_bytes_per_second=50", "; a number without a unit is one of B/s"),
        (
            "--set array.sparsity=2:4",
            "allowed: nothing, as it isn't modelled; array has kind, ",
        ),
        ("--set decompressor.lanes=64", "allowed: nothing, as it isn't modelled; an accelerator "),
        ("--set bufer.capacity=1", "did you mean 'buffer.capacity_bytes'?"),
        ("--set rows=3", "did you mean 'array.rows'?"),
        ("--batch 1e3", "allowed: a whole number from 1 to 1099511627776, such as 1000"),
        ("--batch 1,000", "such as 1000"),
    ],
)
def test_a_mistake_is_one_line_with_the_right_form(cli: Call, options: str, message: str) -> None:
    workload = "--workload bert" if "batch" in options else GEMM
    result = cli(f"run --hw edge {options} {workload}")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert message in line


def test_a_range_with_dots_gets_the_form_of_a_range(cli: Call) -> None:
    result = cli(f"compare --hw edge {GEMM} --sweep buffer=64..128")
    (line,) = result.stderr.splitlines()
    assert "allowed: FROM:TO:xK, FROM:TO:+STEP or A,B,..., as in 64KiB:64MiB:x2" in line


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
