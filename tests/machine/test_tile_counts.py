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


def _runs(*, fast_forward: bool) -> Iterator[tuple[Run, int] | None]:
    """Run drawn pairs of filters: what they do and their events; None if a skip never ends."""

    def stop(_cycle: int, _done: float) -> None:
        raise RuntimeError("a wrong skip never ends")

    for case in filter(None, map(draw_windows, SEEDS)):
        program = lower(case.of, case.mapping)
        try:
            run = Machine(case.on, program, fast_forward=fast_forward).run(stop)
            yield replace(run, events=0), run.events
        except Exception:  # noqa: BLE001 - whatever a wrong skip leads to
            yield None


@pytest.fixture(scope="module")
def both() -> list[list[tuple[Run, int] | None]]:
    """Run them with and without fast-forward."""
    return [list(_runs(fast_forward=on)) for on in (True, False)]


def test_runs_are_as_without_skips(both: list[list[tuple[Run, int] | None]]) -> None:
    fast, whole = ([run and run[0] for run in runs] for runs in both)
    assert None not in whole
    assert fast == whole


def test_runs_go_wrong_if_counts_never_end_a_skip(
    both: list[list[tuple[Run, int] | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TileCounts, "limit", lambda *_: FOREVER)
    wrong = _runs(fast_forward=True)
    assert any(
        run is None or run[0] != (whole and whole[0])
        for run, whole in zip(wrong, both[1], strict=False)
    )


def test_runs_skip(both: list[list[tuple[Run, int] | None]]) -> None:
    """Most that are long do: only loops whose paces have nothing in common are gone through."""
    events = [(one[1], other[1]) for one, other in zip(*both, strict=True) if one and other]
    less = [fast < every for fast, every in events if every > 1000]
    assert sum(less) > len(less) / 2
