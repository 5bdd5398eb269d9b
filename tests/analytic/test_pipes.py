"""Requests on a pipe of the NoC that share it, calculated by hand."""

from simaccel.analytic.bodies import TRUE
from simaccel.analytic.family import ints
from simaccel.analytic.pointwise import plain
from simaccel.analytic.timing.pipes import Pipes
from simaccel.analytic.timing.times import UP
from simaccel.hardware.load import load_accelerator


def _asked(*requests: tuple[str, int, int]) -> tuple[Pipes, list[int]]:
    """Ask for cycles by engine and time; return when each ended by what was known then."""
    pipes, ends = Pipes(load_accelerator("eyeriss_like"), None), []
    for engine, at, cycles in requests:
        sets = [(engine, 0), (("ready", engine), 5)]
        end = pipes.piped(UP, engine, plain(ints(at)), plain(ints(cycles)), TRUE, sets)
        pipes.x[engine], pipes.x["ready", engine] = end, end + 5
        ends.append(int(end))
    return pipes, ends


def test_of_two_each_gets_every_other_turn() -> None:
    pipes, ends = _asked(("one", 0, 30), ("two", 10, 5))
    assert ends == [30, 20]
    assert pipes.x["one"] == 35
    assert pipes.x["ready", "one"] == 40
    assert pipes.x[UP] == 35


def test_one_that_is_gone_through_behind_a_later_one_puts_it_off() -> None:
    pipes, ends = _asked(("one", 10, 5), ("two", 0, 30))
    assert ends == [15, 35]
    assert pipes.x["one"] == 20


def test_what_has_ended_is_not_in_the_way() -> None:
    pipes, ends = _asked(("one", 0, 10), ("two", 10, 5), ("one", 15, 5))
    assert ends == [10, 15, 20]
    assert pipes.x["two"] == 15
