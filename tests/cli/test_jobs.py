"""`--jobs` and `--dask`, processes that die."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
