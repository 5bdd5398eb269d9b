"""The state that must repeat is complete: by declaration, by a walk, and by mutation."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass, replace
from enum import Enum
from typing import ClassVar, get_origin, get_type_hints

import pytest
import simpy
from simpy.core import BoundClass

import simaccel.machine
from simaccel.machine.arbiters import Arbiter
from simaccel.machine.channel import Channel
from simaccel.machine.clock import Clock
from simaccel.machine.engines import Engine
from simaccel.machine.fast_forward import FastForward
from simaccel.machine.machine import Machine
from simaccel.machine.operator_barrier import OperatorBarrier
from simaccel.machine.stateful import FieldRole, GaugeInterval, StatefulPart
from simaccel.program.dependences import CoreDependence
from tests.draws import DRAWS
from tests.machine.trees import Case, cases

# Built before the run and not changed by it, or after it, or only deciding when to look for a
# repetition.
NOT_PARTS = {
    *("Machine", "DramChannels", "SharedResources", "Plan", "Instruction", "InstructionStreams"),
    *("_ItemBuilder", "Alarm", "FastForward", "PeriodDetector", "Scope", "Slot", "DetectionBudget"),
    *("SharedBudget", "RepeatRecorder", "WorkTotals", "CoreWalks"),
}
OWNED = {
    "Arbiter": "Channel",
    "RoundRobinArbiter": "Channel",
    "ReadWriteArbiter": "Channel",
    "ServiceRequest": "Channel",
}

# Dropped alone, a run goes wrong.
TELLS = {
    *("Engine.at", "Engine.iterations", "Clock._now", "Arbiter.direction"),
    *("ServiceRequest.remaining", "Channel.served_cycles", "Tokens.posted"),
}
# These say nothing that where the engines are and what is pending doesn't say as well. They stay
# in the state: what follows from what may change with the engines.
REPEATS = {
    *("StallAccount.cause", "StallAccount.wait", "StallAccount.site", "StallAccount.outer"),
    *("StallAccount.followers", "Tokens.waiter", "Tokens.in_flight", "Tokens.blamed"),
    *("OperatorBarrier.arrived", "OperatorBarrier.closed", "OperatorBarrier.coming"),
    *("OperatorBarrier.depending", "OperatorBarrier.following", "OperatorBarrier.all_arrived"),
    *("OperatorBarrier.held", "OperatorBarrier.gated", "Occupancy.ended", "Occupancy.following"),
    *("Occupancy.n_bytes", "Engine.stage", "Engine.skipped_exchange", "Multicast.waiting"),
    *("TileCounts.waiting", "TileCounts.in_flight", "Occupancy.operator", "Array.came"),
    "Array.since",
    *("Array.free_at", "Array.left_at", "Array.drained_at", "DmaOutEngine.written_at"),
    *("UnitEngine.lag_cycles", "Channel.waiting", "Channel.arbiter"),
    *("Channel.alarm", "Channel.idle_since"),
}
# Dropped with all of those, a run goes wrong.
TELLS_WITHOUT = {"Clock._queue", "Tokens.count", "ServiceRequest.since"}
# The same by another name: a ring is its entries; a gap and what is left of a turn or batch show in
# the times of events.
VIEWS = {
    *("Arbiter.ring", "Arbiter.gap", "Arbiter.left", "ReadWriteArbiter.queues"),
    *("ServiceRequest.direction", "ServiceRequest.owner"),
}
# Of tiles that go from core to core: see test_tile_counts.py.
COUNTED = {"TileCounts.made", "TileCounts.taken"}
# Only a trace is about these: see test_lanes.py and the traces of tests/properties.
WATCHED = {"ChannelProbe.channel", "TileProbe.held"}


def _classes() -> Iterator[type]:
    """Every class of the machine whose objects may change."""
    for module in pkgutil.iter_modules(simaccel.machine.__path__):
        name = f"simaccel.machine.{module.name}"
        for found in vars(importlib.import_module(name)).values():
            if isinstance(found, type) and found.__module__ == name and not _is_fixed(found):
                yield found


def _is_fixed(found: type) -> bool:
    frozen = is_dataclass(found) and found.__dataclass_params__.frozen  # type: ignore[attr-defined]
    protocol = getattr(found, "_is_protocol", False)
    return bool(frozen or protocol or issubclass(found, Enum | Exception | tuple))


def _attributes(part: object) -> dict[str, object]:
    slots = [name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: getattr(part, name) for name in [*slots, *getattr(part, "__dict__", {})]}


def _bases(kind: type[StatefulPart]) -> list[type[StatefulPart]]:
    return [base for base in kind.__bases__ if issubclass(base, StatefulPart)]


def _fields(kind: type) -> dict[str, tuple[FieldRole, ...]]:
    """Name the fields of a class in order, those of its bases first, with their roles."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: getattr(hint, "__metadata__", ())
        for name, hint in hints.items()
        if get_origin(hint) is not ClassVar
    }


def _named(kind: type, *roles: FieldRole) -> list[str]:
    return [name for name, own in _fields(kind).items() if {*roles} & {*own} or own == roles]


def _declared(kind: type[StatefulPart]) -> set[str]:
    """Name all fields; SimPy binds the makers of events to a clock."""
    bound = vars(simpy.Environment).items() if kind is Clock else ()
    return {*_fields(kind), *(name for name, value in bound if isinstance(value, BoundClass))}


def _reach(part: object, seen: dict[int, object]) -> None:
    """Find every object of the machine that can be reached from one of them."""
    if id(part) in seen:
        return
    if isinstance(part, dict):
        inner: list[object] = [*part.values()]
    elif isinstance(part, list | tuple | set) or type(part).__name__ == "deque":
        inner = list(part)  # type: ignore[call-overload]
    elif type(part).__module__.startswith("simaccel.machine"):
        inner = list(_attributes(part).values())
    else:
        return
    seen[id(part)] = part
    for value in inner:
        _reach(value, seen)


def _running(case: Case) -> Machine:
    machine = Machine(case.on, case.program)
    for engine in machine.engines:
        machine.clock.process(engine.run())
    machine.clock.run_some(60)
    return machine


def test_every_class_that_changes_declares_its_state() -> None:
    kinds = {kind.__name__: kind for kind in _classes()}
    missing = [n for n, kind in kinds.items() if not issubclass(kind, StatefulPart)]
    assert set(missing) <= NOT_PARTS


def test_every_attribute_is_declared_and_every_part_is_compared() -> None:
    for case in list(cases(range(60))):
        machine = _running(case)
        seen: dict[int, object] = {}
        _reach(machine, seen)
        parts = [part for part in seen.values() if isinstance(part, StatefulPart)]
        assert {type(p).__name__ for p in parts} >= {
            "Channel",
            "RoundRobinArbiter",
            "Tokens",
            "StallAccount",
        }
        for part in parts:
            assert set(_attributes(part)) <= _declared(type(part)), type(part)
            if type(part).__name__ not in OWNED:
                assert part in machine.parts()


def test_an_undeclared_attribute_is_noticed() -> None:
    part = next(iter(cases(range(60))))
    tokens = _running(part).tokens[0]
    tokens.hidden = 1  # type: ignore[attr-defined]
    assert set(_attributes(tokens)) - _declared(type(tokens)) == {"hidden"}


def test_what_has_gauges_or_counters_returns_them() -> None:
    """A probe counts what its channel does; gauges of a ring are those of its channel."""
    for kind in _classes():
        if issubclass(kind, StatefulPart) and kind.__name__ not in OWNED:
            for role, name in ((FieldRole.GAUGE, "gauges"), (FieldRole.COUNTER, "counters")):
                returned = getattr(kind, name) is not getattr(StatefulPart, name)
                assert returned == bool(_named(kind, role)), kind


def _wiring(machine: Machine) -> list[tuple[str, object]]:
    return [
        (f"{type(p).__name__}.{name}", list(v) if isinstance(v := getattr(p, name), list) else v)
        for p in machine.parts()
        for name in _named(type(p))
    ]


def test_wiring_does_not_change() -> None:
    for case in cases(range(60)):
        machine = Machine(case.on, case.program)
        before = _wiring(machine)
        machine.run()
        assert before == _wiring(machine)


def test_every_component_is_in_one_of_the_lists() -> None:
    declared = {
        f"{kind.__name__}.{name}"
        for kind in _classes()
        if issubclass(kind, StatefulPart) and kind is not StatefulPart
        for name in _named(kind, FieldRole.STATE, FieldRole.GAUGE)
        if not any(name in _fields(base) for base in _bases(kind))
    }
    assert declared == TELLS | REPEATS | TELLS_WITHOUT | VIEWS | COUNTED | WATCHED


def _drop_state(patch: pytest.MonkeyPatch, kind: type[StatefulPart], index: int | None) -> None:
    whole = kind.state

    def state(self: StatefulPart) -> tuple[object, ...]:
        found = whole(self)
        return tuple(None if index in (None, i) else value for i, value in enumerate(found))

    patch.setattr(kind, "state", state)


def _drop_gauges(
    patch: pytest.MonkeyPatch, kind: type[StatefulPart], numbers: slice, shift: int
) -> None:
    """Take numbers as unchanged, or as moved by the period (``shift`` 1)."""
    whole: Callable[..., int] = kind.limit

    def limit(self: StatefulPart, seen: GaugeInterval, **more: int) -> int:
        before = list(seen.before)
        for index in range(len(before))[numbers]:
            before[index] = seen.after[index] - shift * seen.cycles * (seen.after[index] > 0)
        return whole(self, seen._replace(before=tuple(before)), **more)

    patch.setattr(kind, "limit", limit)


GAUGES: dict[str, tuple[tuple[type[StatefulPart], ...], slice, int]] = {
    "Engine.iterations": ((Engine,), slice(None), 0),
    "Clock._now": ((Clock,), slice(None), 1),
    "Arbiter.left": ((Arbiter,), slice(1), 0),
    "Arbiter.direction": ((Arbiter,), slice(2, 3), 0),
    "ServiceRequest.remaining": ((Arbiter,), slice(3, None, 2), 0),
    "ServiceRequest.since": ((Arbiter,), slice(4, None, 2), 0),
    "Channel.served_cycles": ((Channel,), slice(1), 0),
    "Channel.alarm": ((Channel,), slice(1, 2), 0),
    "Channel.idle_since": ((Channel,), slice(2, 3), 0),
}


def _drop(patch: pytest.MonkeyPatch, name: str) -> None:
    if name in GAUGES:
        kinds_of, numbers, shift = GAUGES[name]
        for one in kinds_of:
            _drop_gauges(patch, one, numbers, shift)
        return
    kinds = {kind.__name__: kind for kind in _classes() if issubclass(kind, StatefulPart)}
    kind, attribute = kinds[name.partition(".")[0]], name.partition(".")[2]
    state = _named(kind, FieldRole.STATE)
    _drop_state(patch, kind, None if len(state) == 1 else state.index(attribute))
    if name == "Engine.at":
        patch.setattr(FastForward, "places", list)


def _stop(_: int, __: float) -> None:
    raise RuntimeError("a wrong skip never ends")


def _goes_wrong(case: Case) -> bool:
    try:
        run = Machine(case.on, case.program).run(_stop)
    except Exception:  # noqa: BLE001 - whatever a wrong state leads to
        return True
    return replace(run, events=0) != replace(case.run, events=0)


MOST_EVENTS = 10_000 if DRAWS > 1 else 2_000
SEEDS = [58, 102, 167, 183, 284, 300, 325, 353, 434, 521, 546, 567, 571]
"""Of 600, those of the shortest runs that go wrong without something; `make validate` has all."""


@pytest.fixture(scope="module")
def corpus() -> list[Case]:
    """Give runs, the short ones first: one that goes wrong ends the search for it."""
    seeds = range(600) if DRAWS > 1 else SEEDS
    found = [case for case in cases(seeds) if case.run.events < MOST_EVENTS]
    return sorted(found, key=lambda case: case.run.events)


def test_the_whole_state_goes_right(corpus: list[Case]) -> None:
    assert not any(_goes_wrong(case) for case in corpus)


@pytest.mark.parametrize("name", sorted(TELLS))
def test_a_run_goes_wrong_without(
    name: str, corpus: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    _drop(monkeypatch, name)
    assert any(_goes_wrong(case) for case in corpus)


@pytest.mark.parametrize("name", sorted(TELLS_WITHOUT))
def test_a_run_goes_wrong_without_and_nothing_else_tells(
    name: str, corpus: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in sorted(REPEATS):
        _drop(monkeypatch, other)
    _drop(monkeypatch, name)
    assert any(_goes_wrong(case) for case in corpus)


def test_how_often_an_awaited_operator_has_ended_counts_only_while_it_is_too_seldom() -> None:
    """B needs A once: before that it is another state than after it, after it always the same."""
    awaited = {"B": [CoreDependence("A", now=True)]}
    barrier = OperatorBarrier(
        Clock(),
        {"A": {0: ["x"]}, "B": {1: ["y"]}},
        *((), (), (), awaited),
        lambda _, __: None,
        lambda _: None,
    )
    states = []
    for _ in range(4):
        states.append((barrier.state(), barrier.awaited_operator("B")))
        barrier.arrive("x", "A", "")
    assert [awaited for _, awaited in states] == ["A", "", "", ""]
    assert [state == states[1][0] for state, _ in states] == [False, True, True, True]
