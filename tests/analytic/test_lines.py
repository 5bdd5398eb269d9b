"""The loads of a channel that are kept, calculated by hand."""

from typing import cast

import numpy as np

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import Tiled
from simaccel.analytic.family import Floats
from simaccel.analytic.pointwise import plain
from simaccel.analytic.timing.lines import Line, Request
from simaccel.analytic.timing.times import Reached
from simaccel.hardware.load import load_accelerator

_NONE = cast("Tiled", None)


def _times(*times: int) -> Floats:
    return np.array(times, dtype=float)


def test_loads_are_as_long_ago_after_iterations_that_are_not_gone_through() -> None:
    """What the channel was like is as long ago, as far as it has gone on since."""
    line = Line(load_accelerator("edge"), "dram", latest=_times(20, 30))
    begin, end = _times(20, -1), _times(35, 45)
    none = plain(_times(0)[0])
    move = cast("Move", None)
    before = [line.before(Reached(channel=_times(15, 25)))]
    line.recent = [Request(begin, _NONE, move, none, 1, before, end, "at dma_in0", end + 7)]
    was = line.state(Reached(channel=_times(30, 40)))
    line.move_on(_times(100, 0), was, Reached(channel=_times(130, 40)))
    (one,) = line.recent
    assert one.begin.tolist() == [120, -1]
    assert one.end.tolist() == [135, 45]
    assert one.arrival.tolist() == [142, 52]
    assert line.moved(one.before[0])[line.keys.index("channel") + 2].tolist() == [115, 25]
    assert line.latest.tolist() == [120, 30]
