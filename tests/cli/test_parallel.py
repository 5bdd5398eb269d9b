"""Tasks in parallel processes: results in order, no process left behind."""

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from simaccel.cli import nests, parallel
from simaccel.cli.parallel import run_all, workers
from simaccel.cli.progress import Bar
from simaccel.errors import WorkerDiedError
from tests.cli.conftest import Call

PARENT = """
import os, sys, time
from simaccel.cli.parallel import run_all
from simaccel.cli.progress import Bar
def work(path):
    open(path + str(os.getpid()), "x").close()
    time.sleep(60)
if __name__ == "__main__":
    run_all(work, [sys.argv[1]] * 2, 2, Bar(""), lost=str)
"""


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _run(tasks: Sequence[int], jobs: int) -> list[int]:
    return run_all(_halved, tasks, jobs, Bar(""), lost=lambda task: -task)


def _halved(number: int) -> int:
    """Halve an even number; an odd one ends the process."""
    return number // 2 if number % 2 == 0 else os._exit(1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_tasks(jobs: int) -> None:
    assert _run([6, 2, 4], jobs) == [3, 1, 2]


def test_an_error_in_a_process_is_raised_here() -> None:
    with pytest.raises(OSError, match="nowhere"):
        run_all(os.listdir, ["/nowhere", "/nowhere/else"], 2, Bar(""), lost=list)
    assert multiprocessing.active_children() == []


def test_a_process_that_dies_loses_its_task_only() -> None:
    assert _run([6, 3, 4, 2], 2) == [3, -3, 2, 1]
    assert multiprocessing.active_children() == []


def test_a_process_of_a_search_that_dies_is_said() -> None:
    with pytest.raises(WorkerDiedError, match="a process of the search died"), workers(2) as each:
        list(each(os._exit, [1, 2]))


@contextmanager
def _dying(jobs: int) -> Iterator[Callable[..., Iterable[object]]]:
    """Give processes that die of any task."""
    with workers(jobs) as each:
        yield lambda _work, tasks: each(os._exit, [1 for _ in tasks])


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("line", ["map -o m.yaml", "run --trace t.h5"])
def test_a_search_whose_process_dies_names_its_operator_and_writes_nothing(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (nests, parallel):
        monkeypatch.setattr(module, "workers", _dying)
    result = cli(f"{line} --hw toy_linear --workload gemm --shape M=9,K=7,N=5 --jobs 2")
    assert result.exit_code == 1
    died = "error: gemm: a process of the search died; is there enough memory?\n"
    assert (result.stdout, result.stderr[-len(died) :]) == ("", died)
    assert list(tmp_path.iterdir()) == []
    assert multiprocessing.active_children() == []


def test_ctrl_c_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = Bar("")
    monkeypatch.setattr(bar, "show", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_all(abs, [1, 2], 2, bar, lost=abs)
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL")
def test_processes_end_with_their_parent_however_it_ends(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    line = [sys.executable, str(script), str(tmp_path / "pid.")]
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE) as parent:
        _until(lambda: len([*tmp_path.glob("pid.*")]) == 2)
        parent.kill()
        assert parent.stdout
        parent.stdout.read()  # ends when the last process that could write there has ended
    for path in tmp_path.glob("pid.*"):
        _until(partial(_has_ended, int(path.suffix[1:])))


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _has_ended(number: int) -> bool:
    """Say whether a process runs no more; it may wait to be collected."""
    try:
        return ") Z " in Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return True
