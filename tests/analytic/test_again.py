"""Loads that are gone through behind others that were asked for later, calculated by hand."""

from typing import cast

from simaccel.analytic.blocks import Move
from simaccel.analytic.bodies import FALSE, TRUE, Tiled
from simaccel.analytic.family import Path, ints
from simaccel.analytic.pointwise import plain
from simaccel.analytic.timing.again import Again
from simaccel.analytic.timing.turns import Pace
from simaccel.analytic.units import Units
from simaccel.hardware.load import load_accelerator
from simaccel.mapping.tree import BUFFER, Do
from simaccel.mapping.view import View

_SERVICE = {0: 50, 1: 30, 2: 40, 3: 20}


class _Units:
    """Each tile takes the cycles of its queue."""

    def move(self, tiled: Tiled, *_: object, up: bool) -> Move:  # noqa: ARG002 - as Units
        return Move(plain(ints(_SERVICE[tiled.queue])), plain(ints(0)), 5, on_chip=False)


def _tiled(queue: int) -> Tiled:
    return Tiled(
        tensor="A",
        view=View(name="A", ranks=("m", "k"), shape=(8, 8), bytes_per_element=1),
        level=BUFFER,
        slots=plain(ints(1)),
        queue=queue,
        maker=None,
        stores=(),
        own=TRUE,
        spills=FALSE,
        key=queue,
        at=0,
        dims=(),
        path=Path((), Do(operator="gemm", unit="array")),
    )


def _channel() -> Again:
    found = Again(cast("Units", _Units()), load_accelerator("edge"), None)
    found.lines["dram"].pace = Pace(loads=200, stores=200, turn=7)
    return found


def _load(channel: Again, queue: int, asked: int) -> None:
    channel.load(_tiled(queue), {}, plain(ints(asked)), TRUE, ("next", queue, 0))


def _store(channel: Again, asked: int) -> None:
    channel.x["ready", 3] = plain(ints(asked))
    channel.store(_tiled(3), {}, "output")


def test_a_store_waits_until_loads_run_out_and_a_load_for_the_store() -> None:
    channel = _channel()
    _load(channel, 0, 0)  # until 50
    _store(channel, 10)  # 57 to 77
    _load(channel, 1, 60)  # 84 to 114
    assert channel.x["at dma_out"] == 77
    assert channel.x["next", 1, 0] == 114 + 5


def test_a_load_asked_for_before_another_keeps_the_channel_from_turning() -> None:
    channel = _channel()
    _load(channel, 0, 0)
    _store(channel, 10)
    _load(channel, 1, 60)
    _load(channel, 2, 40)  # is there at 50, so loads go on: until 90, and the other until 120
    assert channel.x["at dma_in2"] == 90
    assert channel.x["at dma_in1"] == 120
    assert channel.x["next", 1, 0] == 120 + 5
    assert channel.x["at dma_out"] == 147


def test_what_its_port_holds_up_holds_up_the_next_of_its_loader() -> None:
    channel = _channel()
    _load(channel, 0, 0)
    _load(channel, 0, 0)  # 50 to 100
    first, second = channel.lines["dram"].recent
    channel._hold_up(first, plain(ints(20)))
    assert first.end == 70
    assert second.end == channel.x["at dma_in0"] == 120
    assert channel.x["next", 0, 0] == 120 + 5
