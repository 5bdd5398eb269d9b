"""Tasks in parallel processes: results in order, no process left behind."""

import multiprocessing
import os

import pytest

from simaccel.cli.parallel import WorkerDiedError, run_all
from simaccel.cli.progress import Bar


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_tasks(jobs: int) -> None:
    assert run_all(abs, [-3, -1, 2], jobs, Bar("")) == [3, 1, 2]


def test_an_error_in_a_process_is_raised_here() -> None:
    with pytest.raises(OSError, match="nowhere"):
        run_all(os.listdir, ["/nowhere", "/nowhere/else"], 2, Bar(""))


def test_a_process_that_dies_is_said() -> None:
    with pytest.raises(WorkerDiedError, match="a process of the comparison died"):
        run_all(os._exit, [1, 2], 2, Bar(""))


def test_ctrl_c_ends_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = Bar("")
    monkeypatch.setattr(bar, "show", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_all(abs, [1, 2], 2, bar)
    assert multiprocessing.active_children() == []
