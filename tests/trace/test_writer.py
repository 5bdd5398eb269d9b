import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from unittest.mock import Mock

import h5py
import numpy as np
import pytest

from simaccel import load_accelerator
from simaccel.errors import InputError
from simaccel.machine.accounts import NO_WAIT, EngineCycles
from simaccel.study.recording import record
from simaccel.trace import TraceError, TraceReader, TraceWriter, store
from simaccel.trace.store import EventBlock
from simaccel.units import Cause
from simaccel.workload import gemm
from tests.trace.scripts import ENGINES, HEADER, Again, Row, padded, tell, write

BUSY = (Cause.BUSY, NO_WAIT, 1)
IDLE = (Cause.IDLE, NO_WAIT, 0)
SCRIPT = padded(
    [Row("sfu", 3, IDLE), Again((Row("array", 2, BUSY), Row("array", 3, IDLE)), 6)], ENGINES
)


def _stored(path: Path) -> list[tuple[int, int]]:
    with h5py.File(path) as file:
        return list(zip(file["events/start"][:], file["events/end"][:], strict=True))


def test_everything_comes_back(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", SCRIPT) as trace:
        assert trace.header == HEADER
        assert trace.cycles == 35
        assert trace.figures == {"cycles": 35}
        assert set(trace.engines) == {*ENGINES}
        assert trace.totals["array"] == EngineCycles(14, 21, {})


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.h5", SCRIPT).close()
    time.sleep(1.1)  # HDF5 keeps times in seconds
    write(tmp_path / "b.h5", SCRIPT).close()
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_neighbours_of_one_activity_are_one_row_except_at_borders(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        for start in range(4):
            writer.interval("array", start, start + 1, *BUSY)
        assert writer.position() == 1
        writer.interval("array", 4, 5, *BUSY)
        writer.interval("array", 5, 6, *BUSY)
        writer.repeat(1, 2, 3)
        writer.interval("array", 12, 13, *BUSY)
        writer.interval("array", 13, 14, Cause.BUSY, NO_WAIT, 2)
        assert writer.position() == 4
        writer.finish(14, {"array": EngineCycles(14, 0, {})})
    assert _stored(tmp_path / "t.h5") == [(0, 4), (4, 6), (12, 13), (13, 14)]
    with TraceReader.open(tmp_path / "t.h5") as trace:
        trace.check()
        assert [(e["start"], e["end"]) for e in trace.events()] == [(0, 13), (13, 14)]


ENDS = [(3 + 5 * at, 7 + 5 * at - 2 * (at % 3), 10 + at) for at in range(60)]
USES = [2, 2, 10, *(number for use in ENDS for number in use)]
"""No use at first; then some end when the next begins, some before."""


def _uses_told(path: Path, pieces: list[int]) -> list[tuple[int, ...]]:
    """Tell the uses in pieces; give all rows, neighbours of one kind as one."""
    with TraceWriter(path, HEADER, block_rows=16) as writer:
        start = reported = at = 0
        for n in [*pieces, len(USES)]:
            part = [max(one, start) for one in USES[at : at + 3 * n]]
            if part:
                writer.note_service("dram0", start, reported, part)
                start, reported, at = part[-2], part[-1], at + 3 * n
        writer.finish(start, {}, {}, {"dram0": reported})
    with TraceReader.open(path) as trace:
        return [(e["start"], e["end"], e["cause"], e["served"]) for e in trace.events()]


def test_uses_are_the_same_rows_however_many_come_at_once(tmp_path: Path) -> None:
    each = _uses_told(tmp_path / "a.h5", [1] * 60)
    assert _uses_told(tmp_path / "b.h5", []) == each
    assert _uses_told(tmp_path / "c.h5", [3, 1, 25, 14]) == each


def test_a_row_costs_a_few_bytes(tmp_path: Path) -> None:
    lengths = [(7 * n * n) % 101 + 1 for n in range(60_000)]
    script = padded([Row("array", n, IDLE if n % 3 else BUSY) for n in lengths])
    with write(tmp_path / "t.h5", script, 16_384) as trace:
        assert trace.n_rows > 20_000
        assert (tmp_path / "t.h5").stat().st_size < 8 * trace.n_rows


def test_segments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
        for start in range(0, 8, 2):
            writer.interval("array", start, start + 1, *BUSY)
            writer.interval("array", start + 1, start + 2, *IDLE)
            if start == 2:
                writer.repeat(1, 3, 1)
        for first, period, times in ((-1, 8, 1), (9, 8, 1), (0, 0, 1), (0, 8, -1)):
            with pytest.raises(ValueError, match="no segment"):
                writer.repeat(first, period, times)
        with pytest.raises(ValueError, match="row 2 lies inside a segment"):
            writer.repeat(2, 6, 1)
        writer.finish(8, {})


def test_a_row_behind_the_last_cycle_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(TraceError, match="allowed: runs of up to 9223372036854775807 cycles"),
        TraceWriter(tmp_path / "t.h5", HEADER) as writer,
    ):
        writer.interval("array", 0, 2**63, *BUSY)
    assert list(tmp_path.iterdir()) == []


def _fail(path: Path, error: BaseException, *, finish: bool = False) -> None:
    with TraceWriter(path, HEADER, block_rows=2) as writer:
        tell(writer, SCRIPT)
        if finish:
            writer.finish(0, {})
        raise error


ERRORS = [KeyboardInterrupt(), RuntimeError("no"), TraceError(Path("t.h5"), "no", "yes")]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("finish", [True, False])
def test_a_failed_run_leaves_no_file(tmp_path: Path, error: BaseException, *, finish: bool) -> None:
    with pytest.raises(type(error)) as caught:
        _fail(tmp_path / "t.h5", error, finish=finish)
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_nobody_finished_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="finish"), TraceWriter(tmp_path / "t.h5", HEADER):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    path.write_text("precious")
    with pytest.raises(KeyboardInterrupt), TraceWriter(path, HEADER, force=True):
        raise KeyboardInterrupt
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_file_is_replaced_by_force_only(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    path.write_text("precious")
    with pytest.raises(
        InputError, match=r"t\.h5: output: got 'a file that exists'; allowed: a new"
    ):
        TraceWriter(path, HEADER)
    assert path.read_text() == "precious"
    write(path, SCRIPT).check()


def test_of_two_runs_with_one_target_the_second_to_end_fails(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    slow = TraceWriter(path, HEADER).__enter__()
    write(path, SCRIPT).close()
    slow.finish(0, {})
    with pytest.raises(InputError, match="a file that exists"):
        slow.__exit__(None, None, None)
    with TraceReader.open(path) as trace:
        trace.check()
        assert trace.cycles == 35
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_opens_at_its_last_checkpoint_after_any_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each change HDF5 is made to write all that it holds, and the file is copied."""
    images: list[tuple[int, bytes]] = []
    kept = 0

    def copied(write: Callable[..., None]) -> Callable[..., None]:
        def change(*arguments: object) -> None:
            write(*arguments)
            writer._file.flush()
            images.append((kept, writer._partial.read_bytes()[: writer._file.id.get_filesize()]))

        return change

    with TraceWriter(tmp_path / "t.h5", HEADER, block_rows=2) as writer:
        monkeypatch.setattr(store, "grow", copied(store.grow))
        monkeypatch.setattr(EventBlock, "write", copied(EventBlock.write))
        for start in range(3):
            writer.interval("array", start, start + 1, *(IDLE if start % 2 else BUSY))
        writer.checkpoint(3)
        kept = 3
        writer.interval("array", 3, 4, *IDLE)
        writer.interval("array", 4, 5, *BUSY)
        writer.repeat(3, 2, 2)
        writer.note_held("tile", 0, 9, 64)
        writer.checkpoint(9)
        kept = 9
        writer.finish(9, {"array": EngineCycles(5, 4, {})})
    states = {0: {}, 3: {"array": [1, 2, 3]}, 9: {"array": [*range(1, 10)], "tile": [9]}}
    assert {at for at, _ in images} == {*states}
    partial = tmp_path / "image.partial"
    for at, image in images:
        partial.write_bytes(image)
        with TraceReader.open(partial) as trace:
            trace.check()
            ends = {lane: trace.events(lane=lane)["end"].tolist() for lane in trace.lanes}
            assert (trace.partial, trace.cycles, ends) == (True, at, states[at])


def test_ctrl_c_while_the_file_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("simaccel.trace.store.write_beginning", interrupted)
    with pytest.raises(KeyboardInterrupt), TraceWriter(tmp_path / "t.h5", HEADER):
        pass
    assert not any(tmp_path.iterdir())


def test_ctrl_c_waits_until_the_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 is not disturbed: h5py may lose an exception."""
    done = []

    def slow(*index: object) -> None:
        signal.raise_signal(signal.SIGINT)
        done.append(index)

    def checkpoint() -> None:
        with TraceWriter(tmp_path / "t.h5", HEADER) as writer:
            writer.interval("array", 0, 1, *BUSY)
            writer.checkpoint(1)

    monkeypatch.setattr("simaccel.trace.store.write_index", slow)
    with pytest.raises(KeyboardInterrupt):
        checkpoint()
    assert len(done) == 1
    assert not any(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_writing_works_in_other_threads_too(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(write, tmp_path / "t.h5", SCRIPT).result().close()
    TraceReader.open(tmp_path / "t.h5").close()


CHILD = """
    import os
    import h5py
    import simaccel.machine.machine as machine
    from itertools import count
    from simaccel import load_accelerator
    from simaccel.study.recording import record
    from simaccel.workload import gemm
    machine._CHUNK = 500
    toy, flush, number = load_accelerator("toy"), h5py.File.flush, count(1)
    def die_after_third(file):
        flush(file)
        if next(number) == 3:
            os._exit(9)
    h5py.File.flush = die_after_third
    record("t.h5", gemm(m=300, k=60, n=200), toy, "naive", fast_forward=False)
"""
"""A run that is killed in its second checkpoint, when the rows are in the file but not counted."""


def test_a_killed_run_leaves_the_beginning_of_its_trace(tmp_path: Path) -> None:
    line = [sys.executable, "-c", dedent(CHILD)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run(line, cwd=tmp_path, env=environment, check=False).returncode == 9
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
