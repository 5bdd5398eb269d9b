"""Commands that are killed at some moment: what claims to be whole is whole."""

import csv
import signal
from pathlib import Path

from simaccel.trace import TraceReader
from simaccel.trace.guard import FORMAT
from tests.robust.processes import REPOSITORY, Done, Server

TRACE = REPOSITORY / "traces" / "edge_bert_flat.h5"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
GEMM = ("--hw", "toy", "--workload", "gemm", "--shape", "M=90,K=70,N=50")
TINY = ("--hw", "toy", "--workload", "gemm", "--shape", "M=30,K=20,N=10")
SWEEP = ("--sweep", "buffer=1KiB:64KiB:x4", "--jobs", "1", "--no-fast-forward")
COMMANDS = {
    "run.h5": ("run", *GEMM, "--dataflow", "naive", "--no-fast-forward", "--trace"),
    "rows.csv": ("compare", *TINY, "--dataflow", "naive,flex", *SWEEP, "--csv"),
    "page.html": ("trace", "view", str(TRACE), "-o"),
    "map.yaml": ("map", *GEMM, "--mapspace", "ruby-s", "--patience", "100", "-o"),
}
"""Commands by the name of the file that they write."""
INTERRUPTED = 130
OLD = "an older file"


def kill_some(server: Server, folder: Path, times: int) -> dict[str, int]:
    """Kill each command several times, at moments all over its run; count the ends by kind."""
    ends = {"whole": 0, "killed": 0, "partial": 0}
    for name, line in COMMANDS.items():
        whole = server.run(*line, name, folder=folder)
        assert whole.code == 0, whole.stderr
        expected = (folder / name).read_bytes()
        for at in range(times):
            (folder / name).write_text(OLD)
            after = whole.seconds * (at + 0.5) / times
            number = SIGNALS[at % len(SIGNALS)]
            done = server.run(*line, name, "--force", folder=folder, kill=(after, number))
            ends[_require_whole(folder, name, expected, done)] += 1
            for path in folder.iterdir():
                ends["partial"] += path.suffix == ".partial"
                path.unlink()
    return ends


def _require_whole(folder: Path, name: str, expected: bytes, done: Done) -> str:
    """Check what a command left, which may have ended before it was killed."""
    found = (folder / name).read_bytes()
    assert done.code in {0, INTERRUPTED, -signal.SIGKILL}, done
    assert "Traceback" not in done.stderr
    assert found == expected or (found == OLD.encode() and done.code), name
    others = [path for path in folder.iterdir() if path.name != name]
    for path in others:
        assert path.name.startswith(f"{name}."), path
        assert path.suffix == ".partial", path
        _require_readable(path, name, done)
    return "whole" if found == expected else "killed"


def _require_readable(path: Path, name: str, done: Done) -> None:
    """Check what a killed command left beside its target."""
    if name == "run.h5":
        assert done.code == -signal.SIGKILL
        if FORMAT.encode() not in path.read_bytes():
            return  # killed before HDF5 wrote anything
        with TraceReader.open(path) as trace:
            assert trace.partial
            trace.check()
    elif name == "rows.csv":
        rows = list(csv.DictReader(path.read_text().splitlines()))
        assert all(row["cycles"] or row["problem"] for row in rows)
    else:
        assert done.code == -signal.SIGKILL
