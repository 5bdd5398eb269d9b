"""`--jobs` and `--dask`, processes that die; and the command that names a compiler's headroom."""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from simaccel.cli import main
from simaccel.errors import WorkerDiedError
from tests.cli.conftest import Call


class _Dying:
    """Processes that die of any task."""

    def run_each(self, _work: Callable[..., object], _tasks: object) -> Iterable[object]:
        raise WorkerDiedError("a process of the search died; is there enough memory?")


@contextmanager
def _dying(_jobs: int) -> Iterator[_Dying]:
    yield _Dying()


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("line", ["map -o m.yaml", "run --trace t.h5"])
def test_a_search_whose_process_dies_names_its_operator_and_writes_nothing(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("simaccel.study.parallel.open_workers", _dying)
    result = cli(f"{line} --hw toy_linear --workload bert --seq-len 4 --scope la --jobs 2")
    assert result.exit_code == 1
    died = "error: L: a process of the search died; is there enough memory?\n"
    assert (result.stdout, result.stderr[-len(died) :]) == ("", died)
    assert list(tmp_path.iterdir()) == []


def test_there_are_at_most_four_processes_a_processor(cli: Call) -> None:
    """There is one processor here; and nothing is searched, so that none starts."""
    line = "run --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive --quiet --set jobs="
    assert cli(f"{line}4").exit_code == 0
    said = cli.refused(f"{line}5")
    assert said == (
        "error: command line: --set jobs: got 5; allowed: at most 4, which is 4 a processor; --set "
        "dask for more\n"
    )


def test_no_process_where_nothing_is_searched(cli: Call, tmp_path: Path) -> None:
    run = "--hw toy --workload gemm --shape M=9,K=7,N=5"
    assert cli(f"map {run} --dataflow naive -o {tmp_path}/m.yaml").exit_code == 0
    said = cli.refused(f"run {run} --mapping {tmp_path}/m.yaml --set dask=tcp://a:1")
    assert said.startswith("error: command line: --set dask: got 'tcp://a:1'; allowed: noth")


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
