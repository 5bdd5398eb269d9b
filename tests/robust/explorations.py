"""Explorations that are killed and started again: the same bytes as one that was left alone."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

from tests.robust.processes import REPOSITORY, Done, Server

Victim = Literal["parent", "worker", "scheduler"]
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
LINE = (
    *("explore", "--hw", "toy", "--dataflow", "naive"),
    *("--workload", "gemm shape=M=18,K=14,N=10 weight=2"),
    *("--workload", "gemm shape=M=12,K=8,N=6"),
    *("--axis", "array=2,4", "--axis", "dram-latency=0:40:+8"),
    *("--store", "store", "--csv", "rows.csv", "--force"),
)
CLUSTER = """
import logging, time
from distributed import LocalCluster
if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    print(cluster.scheduler_address, flush=True)
    time.sleep(600)
"""


def bytes_in(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder, apart from what names a number of processes or an address.

    A table that SIGKILL met while it was written lies beside its target; the store has none of it.
    """
    found = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return {
        name: data
        for name, data in found.items()
        if not name.endswith("manifest.json")
        and not (name.startswith("rows.csv.") and name.endswith(".partial"))
    }


def whole(server: Server, folder: Path) -> tuple[dict[str, bytes], float]:
    """Explore without a kill; give what lies there then, and the seconds that it took."""
    folder.mkdir()
    done = server.run(*LINE, "--jobs", "1", folder=folder)
    assert done.code == 0, done
    assert (folder / "store" / "manifest.json").exists()
    return bytes_in(folder), done.seconds


def killed(
    server: Server, folder: Path, victim: Victim, after: float, number: int
) -> tuple[Done, int]:
    """Kill the parent, a worker or the scheduler; give how it ended, and what is kept by then."""
    folder.mkdir()
    if victim == "parent":
        done = server.run(*LINE, "--jobs", "1", folder=folder, kill=(after, number))
    elif victim == "worker":
        done = _started(folder, ("--jobs", "2"), partial(_kill_worker, after))
    else:
        with _cluster() as (cluster, address):
            kill = partial(_kill_cluster, after, cluster)
            done = _started(folder, ("--dask", address), kill)
    return done, len([*folder.glob("store/runs/*/*.json")])


def require_same(server: Server, folder: Path, expected: dict[str, bytes]) -> Done:
    """Start it again, and compare all that lies there with what lies there without a kill."""
    done = server.run(*LINE, "--jobs", "1", folder=folder)
    assert done.code == 0, done
    found = bytes_in(folder)
    different = {name for name in {*found, *expected} if found.get(name) != expected.get(name)}
    assert not different
    return done


def kill_and_go_on(
    server: Server, folder: Path, times: dict[Victim, int], seed: int = 0
) -> dict[str, int]:
    """Kill at random moments, each time in a new folder; count the ends by kind."""
    expected, seconds = whole(server, folder / "whole")
    chance = random.Random(seed)  # noqa: S311 - moments
    ends = {"killed": 0, "went on": 0, "nothing kept": 0, "some kept": 0, "all kept": 0}
    runs = sum(name.startswith("store/runs/") for name in expected)
    for victim, count in times.items():
        for at in range(count):
            # processes of their own take some seconds to begin
            after = chance.uniform(0, 1) * (seconds if victim == "parent" else 4 * seconds)
            there = folder / f"{victim}{at}"
            done, kept = killed(server, there, victim, after, SIGNALS[at % len(SIGNALS)])
            assert "Traceback" not in done.stderr, done
            ends["went on" if done.code == 0 else "killed"] += 1
            ends["nothing kept" if not kept else "all kept" if kept == runs else "some kept"] += 1
            require_same(server, there, expected)
    return ends


def _started(folder: Path, more: tuple[str, ...], kill: partial[None]) -> Done:
    """Run the command in a process of its own, with processes of its own."""
    line = [sys.executable, "-m", "simaccel", *LINE, *more]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    pipe = subprocess.PIPE
    started = time.monotonic()
    with subprocess.Popen(
        line, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True
    ) as child:
        kill(folder, child.pid)
        out, err = child.communicate(timeout=120)
    return Done(child.returncode, out, err, time.monotonic() - started, 0)


def _begun(folder: Path, pid: int) -> bool:
    """Wait for the first record, or the end of the process."""
    while not [*folder.glob("store/runs/*/*.json")]:
        if _state(pid) in {"", "Z"}:
            return False
        time.sleep(0.02)
    return True


def _kill_worker(after: float, folder: Path, pid: int) -> None:
    """Kill one of the processes that a process has started."""
    if _begun(folder, pid):
        time.sleep(after / 4)
        for child in _children(pid)[-1:]:
            os.kill(child, signal.SIGKILL)


def _kill_cluster(after: float, cluster: subprocess.Popen[str], folder: Path, pid: int) -> None:
    if _begun(folder, pid):
        time.sleep(after / 4)
    cluster.kill()


def _children(pid: int) -> list[int]:
    """Find the processes of a process, apart from those that only clean up behind it."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            line = path.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == pid and b"spawn_main" in line:
            found.append(int(path.parent.name))
    return sorted(found)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@contextmanager
def _cluster() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a scheduler with one process."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    line = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(
        line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as cluster:
        assert cluster.stdout
        try:
            yield cluster, cluster.stdout.readline().strip()
        finally:
            cluster.kill()
