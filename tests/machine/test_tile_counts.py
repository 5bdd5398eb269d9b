"""Tiles from core to core beside fast-forward: skips end where a reader would wait otherwise."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from simaccel.machine.machine import Machine, Run
from simaccel.machine.stateful import FOREVER
from simaccel.machine.tile_counts import TileCounts
from simaccel.program.lowering import lower
from tests.drawn_places import draw_windows

SEEDS = range(40)


def _runs(*, fast_forward: bool) -> Iterator[Run | None]:
    """Run drawn pairs of filters; None where a wrong skip never ends."""

    def stop(_cycle: int, _done: float) -> None:
        raise RuntimeError("a wrong skip never ends")

    for case in filter(None, map(draw_windows, SEEDS)):
        program = lower(case.of, case.mapping)
        try:
            run = Machine(case.on, program, fast_forward=fast_forward).run(stop)
            yield replace(run, events=0)
        except Exception:  # noqa: BLE001 - whatever a wrong skip leads to
            yield None


def test_runs_are_as_without_skips() -> None:
    assert list(_runs(fast_forward=True)) == list(_runs(fast_forward=False))


def test_runs_go_wrong_if_counts_never_end_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(_runs(fast_forward=False))
    monkeypatch.setattr(TileCounts, "limit", lambda *_: FOREVER)
    assert list(_runs(fast_forward=True)) != whole


def test_runs_skip() -> None:
    """Most that are long do: only loops whose paces have nothing in common are gone through."""
    less = []
    for case in filter(None, map(draw_windows, SEEDS)):
        program = lower(case.of, case.mapping)
        events = [Machine(case.on, program, fast_forward=on).run().events for on in (True, False)]
        if events[1] > 1000:
            less.append(events[0] < events[1])
    assert sum(less) > len(less) / 2
