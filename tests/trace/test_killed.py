"""A run that is killed leaves a partial trace, which is the beginning of the whole one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from simaccel import load_accelerator
from simaccel.experiment.recording import record
from simaccel.trace import TraceError, TraceReader
from simaccel.workload import gemm

CHILD = """
    import simaccel.machine.machine as machine
    from simaccel import load_accelerator
    from simaccel.experiment.recording import record
    from simaccel.workload import gemm
    machine._CHUNK = 500
    toy = load_accelerator("toy")
    record("t.h5", gemm(m=300, k=60, n=200), toy, "naive", fast_forward=False)
"""


def _cycles(partial: Path) -> int:
    """Give the cycles of a trace that is being written, 0 if it changes just now."""
    try:
        with TraceReader.open(partial) as trace:
            return trace.cycles
    except TraceError:
        return 0


@pytest.mark.skipif(os.name == "nt", reason="sends SIGKILL")
def test_a_killed_run_leaves_the_beginning_of_its_trace(tmp_path: Path) -> None:
    line = [sys.executable, "-c", dedent(CHILD)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(line, cwd=tmp_path, env=environment) as child:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and child.poll() is None:
            if any(_cycles(file) > 10_000 for file in tmp_path.glob("*.partial")):
                child.send_signal(signal.SIGKILL)
            time.sleep(0.01)
    assert child.returncode == -signal.SIGKILL
    (partial,) = tmp_path.iterdir()
    record(tmp_path / "whole.h5", gemm(m=300, k=60, n=200), load_accelerator("toy"), "naive")
    with TraceReader.open(partial) as begun, TraceReader.open(tmp_path / "whole.h5") as whole:
        begun.check()
        end = begun.cycles
        assert begun.partial
        assert 0 < end < whole.cycles
        for lane in whole.lanes:
            events = whole.events(0, end, lane=lane)
            events["end"] = np.minimum(events["end"], end)
            found = begun.events(lane=lane)
            events["served"][-1:] = found["served"][-1:]  # the last one is cut
            for name in ("start", "end", "cause", "site", "held", "served"):
                assert np.array_equal(found[name], events[name]), (lane, name)
        assert begun.stalls(("cause",)) == whole.stalls(("cause",), 0, end)
        assert begun.bandwidth(bins=10).moved.sum() > 0
        assert begun.program() == whole.program()
    record(tmp_path / "t.h5", gemm(m=3, k=6, n=2), load_accelerator("toy"), "naive")
    assert {path.name for path in tmp_path.iterdir()} == {"t.h5", "whole.h5"}  # none of the killed
