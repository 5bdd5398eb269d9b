"""The part of a trace that is exported: windows and numbers of events."""

import re
from pathlib import Path

import pytest

from simaccel.trace import TraceError, TraceReader
from simaccel.trace.exports import excerpt
from tests.trace.exports.runs import (
    FOLDER,
    alternating,
)
from tests.trace.scripts import (
    write,
)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4), (0, 474)])
def test_a_window_outside_the_run_is_refused(start: int, end: int) -> None:
    with TraceReader.open(FOLDER / "toy_gemm_naive.h5") as trace:
        problem = rf"toy_gemm_naive.h5: cycles {start} to {end}; allowed: a part of cycles 0 to 473"
        with pytest.raises(TraceError, match=problem):
            excerpt(trace, start, end)


def test_too_many_events_are_refused_at_the_exact_number(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", alternating(8)) as trace:
        assert len(excerpt(trace, at_most=18).rows) == 18
        message = (
            r"t.h5: 18 rows in cycles 0 to 40, more than 17; allowed: --from 0 --to 20 "
            r"\(start=0, end=20\), or a larger --at-most \(at_most\) than 17"
        )
        with pytest.raises(TraceError, match=message):
            excerpt(trace, at_most=17)
        with pytest.raises(
            TraceError, match=r"cycles 7 to 40, .*; allowed: a larger --at-most \(at_most\) than 2$"
        ):
            excerpt(trace, 7, at_most=2)


def test_the_window_that_is_named_fits(tmp_path: Path) -> None:
    with write(tmp_path / "t.h5", alternating(10**15)) as trace:
        with pytest.raises(TraceError) as refused:
            excerpt(trace, 1234, at_most=1000)
        found = re.search(r"--from 1234 --to (\d+) \(start=1234, end=\1\)", str(refused.value))
        assert found is not None
        assert 400 < len(excerpt(trace, 1234, int(found[1]), at_most=1000).rows) <= 1000


def test_lanes_are_named_or_of_a_kind() -> None:
    with TraceReader.open(FOLDER / "toy_gemm_naive.h5") as trace:
        assert excerpt(trace, lanes=["tile B", "engine"]).lanes == {
            **dict.fromkeys(trace.engines, "engine"),
            "tile B": "tile",
        }
        assert set(excerpt(trace).lanes.values()) == {"engine", "tile"}
        with pytest.raises(TraceError, match=r"no lane 'tile b'; did you mean 'tile B'"):
            excerpt(trace, lanes=["array", "tile b"])
