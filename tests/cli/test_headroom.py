"""The command that a detailed run names for the headroom of a chip's compiler."""

import json
import shlex

from click.testing import CliRunner, Result

from simaccel.cli import main
from tests.cli.conftest import Call

GIVEN = (
    "--hw tpu_v6e --set dram.interleave_bytes=4096~B --chips 2 --workload gemm "
    "--shape M=256,K=256,N=128 --precision int8"
)
SETTINGS = "--set tensor-parallel=2 --set fast-forward=no"
TEXT = "headroom that the chip's compiler leaves: "


def _headroom(result: Result) -> list[str]:
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    return [line.removeprefix(TEXT) for line in lines if line.startswith(TEXT)]


def test_a_detailed_run_of_a_compilers_kernels_names_what_runs_beside_it(cli: Call) -> None:
    """With its own options that choose the experiment, and none of what is shown of it."""
    shown = "--set explain --top 3 --detail"
    (line,) = _headroom(cli(f"run {GIVEN} {SETTINGS} --set sequence-parallel=no {shown}"))
    given = GIVEN.replace("4096~B", "'4096 B'")
    assert sorted(shlex.split(line)) == sorted(
        shlex.split(f"simaccel compare {given} {SETTINGS} --dataflow deployed,best")
    )


def test_what_it_names_runs_the_same_beside_the_best(cli: Call) -> None:
    run = f"run {GIVEN} {SETTINGS}"
    (line,) = _headroom(cli(f"{run} --detail"))
    words = [*shlex.split(line)[1:], "--json", "--jobs", "1"]
    rows = json.loads(CliRunner().invoke(main, words).stdout)
    cycles = {row["dataflow"]: row["cycles"] for row in rows}
    assert cycles["deployed"] == cli.json(run)["cycles"]
    assert cycles["best"] <= cycles["deployed"]


def test_other_dataflows_and_short_output_name_none(cli: Call) -> None:
    assert not _headroom(cli(f"run {GIVEN}"))
    assert not _headroom(cli(f"run {GIVEN} --dataflow naive --detail"))
