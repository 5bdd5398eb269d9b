"""Tasks in parallel processes: results in order, no process left behind."""

import errno
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from simaccel.errors import InputError, WorkerDiedError
from simaccel.study import cluster, parallel
from simaccel.study.cluster import connect_cluster
from simaccel.study.parallel import ClusterError, TaskWorkers, open_workers

PARENT = """
import os, sys, time
from simaccel.study.parallel import open_workers
def work(path):
    open(path + str(os.getpid()), "x").close()
    time.sleep(60)
if __name__ == "__main__":
    with open_workers(2) as team:
        team.run(work, [sys.argv[1]] * 2, print, lost=str)
"""


@pytest.fixture(scope="module")
def team() -> Iterator[TaskWorkers]:
    """Two processes for all tests that don't end them for good."""
    with open_workers(2) as two:
        yield two


@pytest.fixture
def count() -> Callable[[], int]:
    """Count the processes that a test has started."""
    before = {*multiprocessing.active_children()}
    return lambda: len({*multiprocessing.active_children()} - before)


def _run(
    work: Callable[[int], object],
    tasks: Sequence[int],
    watch: Callable[[float, str], None] = lambda _done, _note: None,
) -> None:
    """Run tasks in two processes of their own."""
    with open_workers(2) as two:
        two.run(work, tasks, watch)


def _interrupt(_done: float, _note: str) -> None:
    raise KeyboardInterrupt


def _halved(number: int) -> int:
    """Halve an even number; an odd one ends the process."""
    return number // 2 if number % 2 == 0 else os._exit(1)


def _minus(number: int) -> int:
    return -number


def _sleep(_: object) -> None:
    time.sleep(60)


def test_one_job_runs_in_this_process_and_loads_no_dask() -> None:
    code = (
        "import os, sys; from simaccel.study.parallel import open_workers;"
        "one = open_workers(1).__enter__();"
        "assert one.run(lambda _: os.getpid(), [1, 2]) == [os.getpid()] * 2;"
        "assert open_workers(2).__enter__().run(abs, [-1]) == [1];"
        "assert not {'dask', 'distributed', 'multiprocessing'} & {*sys.modules}"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("count", [1, 3, 200])
def test_results_come_in_the_order_of_the_tasks(team: TaskWorkers, count: int) -> None:
    told: list[float] = []
    found = team.run(abs, range(-count, 0), lambda done, _: told.append(done))
    assert found == [*range(count, 0, -1)]
    assert told == [(at + 1) / count for at in range(count)]
    assert list(team.run_each(abs, range(-count // 10, 0))) == [*range(-(-count // 10), 0, -1)]


def test_results_that_nobody_asks_for_are_cancelled(team: TaskWorkers) -> None:
    started = time.monotonic()
    assert next(iter(team.run_each(time.sleep, [0] + [1] * 60))) is None
    assert list(team.run_each(abs, [-1, -2])) == [1, 2]
    assert time.monotonic() - started < 20


def test_an_error_in_a_process_is_raised_here(team: TaskWorkers) -> None:
    with pytest.raises(OSError, match="nowhere"):
        team.run(os.listdir, ["/nowhere", "/nowhere/else"], lost=list)
    with pytest.raises(OSError, match="nowhere"):
        list(team.run_each(os.listdir, ["/nowhere"]))


def test_tasks_that_travelled_with_one_that_kills_are_not_lost(team: TaskWorkers) -> None:
    """All of them are over at once, so that they travel together soon."""
    tasks = [2] * 60 + [3] + [2] * 60
    assert team.run(_halved, tasks, lost=_minus) == [1] * 60 + [-3] + [1] * 60


def test_a_process_of_a_search_that_dies_is_said(team: TaskWorkers) -> None:
    with pytest.raises(WorkerDiedError, match="a process of the search died"):
        list(team.run_each(os._exit, [1, 2]))


@pytest.fixture(scope="module")
def scheduler() -> Iterator[LocalCluster]:
    """Start a cluster as users have it, with a process."""
    address = "127.0.0.1:0"
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=address) as there,  # type: ignore[no-untyped-call]
    ):
        yield there


def test_a_cluster_that_exists_is_used(scheduler: LocalCluster) -> None:
    address = scheduler.scheduler_address
    with connect_cluster(address) as other:
        found = other.run(_pid, range(20))
        assert os.getpid() not in found
        assert len({*found}) == 1
        assert other.run(_halved, [6, 3, 4], lost=_minus) == [3, -3, 2]
        assert list(other.run_each(abs, [-1, -2])) == [1, 2]
        other.digest = "of another simaccel"
        with pytest.raises(
            ClusterError, match="has another version of simaccel; install this one there"
        ):
            list(other.run_each(abs, [1]))
    (worker,) = scheduler.scheduler_info["workers"]  # its address is none of a scheduler
    allowed = "the address of a Dask scheduler that answers"
    with pytest.raises(InputError, match=allowed), connect_cluster(worker):
        pass


def _pid(_: object) -> int:
    return os.getpid()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "ftp://a:1", "tcp://"])
def test_an_address_where_nobody_answers(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simaccel.study.cluster._ANSWER_SECONDS", 0.3)
    with pytest.raises(InputError) as caught, connect_cluster(address):
        pass
    said = f"command line: --dask: got '{address}'; allowed: the address of a Dask scheduler"
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "said",
    [
        b"",  # nothing, ever
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        bytes(range(200, 256)),
        b"\1" + bytes(7) + b"\1",  # a message of one byte
        b"\0" * 16,
    ],
)
def test_an_address_of_another_service(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_ANSWER_SECONDS", 0.3)
    callers = []
    with socket.create_server(("127.0.0.1", 0)) as service:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    callers.append(service.accept()[0])
                    callers[-1].sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        with (
            pytest.raises(InputError, match="the address of a Dask scheduler that answers"),
            connect_cluster(f"tcp://127.0.0.1:{service.getsockname()[1]}"),
        ):
            pass
        service.shutdown(socket.SHUT_RDWR)
    for caller in callers:
        caller.close()


def test_processes_are_started_for_tasks_and_no_more_of_them_than_tasks(
    count: Callable[[], int],
) -> None:
    with open_workers(100_000) as some:
        assert list(some.run_each(_pid, [0])) == [os.getpid()]
        assert os.getpid() not in [*some.run_each(_pid, [0, 1])]
        assert count() == 2
        assert list(some.run_each(abs, [-1, -2, -3])) == [1, 2, 3]
        assert count() <= 3
    assert count() == 0


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_signal_ends_processes_that_still_start(
    number: int, count: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would need a minute."""
    main = threading.main_thread().ident or 0
    handler = signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    monkeypatch.setattr(parallel, "_work", _sleep)
    threading.Timer(1.0, signal.pthread_kill, (main, number)).start()
    with pytest.raises(KeyboardInterrupt):
        _run(abs, range(2))
    signal.signal(number, handler)
    assert time.monotonic() - began < 30
    assert count() == 0


def test_ctrl_c_ends_the_processes() -> None:
    """Not even one that sleeps for ever is waited for."""
    before = multiprocessing.active_children()
    with pytest.raises(KeyboardInterrupt):
        _run(time.sleep, [10**6, 0], _interrupt)
    assert {*multiprocessing.active_children()} <= {*before}


@pytest.mark.skipif(os.name == "nt", reason="sends signals")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(one, marks=pytest.mark.long) for one in (signal.SIGTERM, signal.SIGINT)),
    ],
)
def test_processes_end_with_their_parent_however_it_ends(tmp_path: Path, number: int) -> None:
    """The signals go to the whole group, as Ctrl-C does, apart from SIGKILL."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    line = [sys.executable, str(script), str(tmp_path / "pid.")]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        line, env=environment, stdout=pipe, stderr=pipe, start_new_session=True
    ) as parent:
        _until(lambda: len([*tmp_path.glob("pid.*")]) == 2)
        if number == signal.SIGINT:
            os.killpg(parent.pid, number)
        else:
            parent.send_signal(number)
        assert parent.stdout
        assert parent.stderr
        parent.stdout.read()  # ends when the last process that could write there has ended
        said = parent.stderr.read().decode()
    for path in tmp_path.glob("pid.*"):
        _until(partial(_has_ended, int(path.suffix[1:])))
    assert said.count("Traceback") == (number == signal.SIGINT), said  # the parent's own
    assert "leaked" not in said


def test_a_process_that_does_not_start_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(SpawnProcess, "start", refuse)
    said = "no process of --jobs starts: Too many open files; --jobs 1 needs none"
    with pytest.raises(ClusterError, match=said):
        _run(abs, [1, 2])


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
