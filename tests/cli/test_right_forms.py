"""Messages: one mistake is one line, with the right form of what is written in another way."""

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from simaccel.hardware.presets import template

Call = Callable[[str], Result]
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
