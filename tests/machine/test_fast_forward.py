"""What fast-forward skips, what it costs and may spend, and the parts that it leans on."""

import re
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.arbiters import RoundRobinArbiter, ServiceRequest
from simaccel.machine.array import Array
from simaccel.machine.clock import Clock
from simaccel.machine.detection_budget import (
    EVENT_POINTS,
    LOOK_POINTS,
    PART_POINTS,
    DetectionBudget,
    SharedBudget,
)
from simaccel.machine.fast_forward import FastForward, Repetition, Scope, Snapshot
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.view import TensorView
from simaccel.program.lowering import lower
from simaccel.program.overlap import most_reserved_bytes
from simaccel.program.program import (
    Compute,
    Folds,
    Load,
    Operator,
    Program,
    ProgramLoop,
    Store,
    Tile,
)
from simaccel.program.text import parse_program, program_text
from simaccel.workload import ModelDimensions, attention, gemm
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator
from tests.machine.trees import cases
from tests.program.programs import (
    FlatTiles,
    GemmTiles,
    Rows,
    attention_workload,
    case,
    flat_group,
    gemm_case,
    staged_groups,
)
from tests.trees import mapping

EDGE = load_accelerator("edge", ["buffer.capacity_bytes=unlimited"])
TOY = load_accelerator("toy", ["buffer.capacity_bytes=unlimited"])


def _same(program: Program, on: object = TOY) -> tuple[Run, Run]:
    fast, full = (Machine(on, program, fast_forward=f).run() for f in (True, False))  # type: ignore[arg-type]
    assert replace(fast, events=0) == replace(full, events=0)
    return fast, full


def test_a_gemm_of_100_000_folds_is_the_same() -> None:
    program = gemm_case(gemm(m=4096, k=384, n=1024), m=64, k=384, n=64).program
    fast, full = _same(program, EDGE)
    assert fast.events < full.events / 20


@pytest.mark.parametrize(
    ("due", "passed"), [(None, 3), (16, 3), (15, 2), (11, 2), (10, 1), (6, 1), (5, 0), (0, 0)]
)
def test_cycles_pass_at_once_before_the_next_event(due: int | None, passed: int) -> None:
    """Up to three times 5 cycles: not in the cycle of an event, which comes first."""
    clock = Clock()
    if due is not None:
        clock.call_in(due, lambda _: None)
    assert (clock.pass_time(5, 3), clock.cycle, clock.events) == (0, 0, 0)
    clock.skips = True
    assert clock.pass_time(5, 3) == passed
    assert (clock.cycle, clock.events) == (5 * passed, int(passed > 0))


@pytest.mark.parametrize("keys", [250, 4096])
def test_events_do_not_grow_with_the_trips(keys: int) -> None:
    sizes = ModelDimensions(hidden=768, heads=12, head_size=64, ff_size=4)
    tiles = FlatTiles(rows=60, keys=keys, online=keys < 4096)
    events = []
    for batch in (64, 6400):
        workload = attention(sizes, batch=batch, seq_len=4096, scope="la")
        program = case(workload, flat_group(workload, tiles)).program
        events.append(Machine(EDGE, program).run().events)
    assert events[1] == events[0] < 30_000


def _tile(name: str, n_bytes: int) -> Tile:
    ranks = {"a": "m+k", "b": "k+n", "o": "m+n"}[name]
    view = TensorView(name=name, ranks=(ranks,), shape=(1 << 24,), bytes_per_element=1)
    return Tile(name=name, view=view, shape=(n_bytes,), slots=2)


def _prefetch(inner: int, trips: int) -> Program:
    """A large tile is loaded for the next round while small ones stream by."""
    large, small, out = _tile("a", 30_000), _tile("b", 24), _tile("o", 16)
    fold = Compute(
        out=out, inputs=(large, small), ranks=("m", "k", "n"), shape=(4, 4, 4), on=Folds("ws")
    )
    body = (Load(tile=small, queue=1), fold, Store(tile=out))
    stream = ProgramLoop(rank="n", trips=inner, tiles=(small, out), body=body)
    rounds = ProgramLoop(rank="m", trips=trips, tiles=(large,), body=(Load(tile=large), stream))
    return Program(name="prefetch", body=(Operator(name="op", body=(rounds,)),))


def test_a_long_transfer_does_not_hide_the_repetition() -> None:
    fast, full = _same(_prefetch(300, 15))
    assert fast.events < full.events / 10


def test_a_skip_ends_before_the_long_transfer_does() -> None:
    for inner in range(200, 206):
        _same(_prefetch(inner, 9))


@pytest.mark.parametrize("latency", [0, 3])
@pytest.mark.parametrize("rate", ["unlimited", "1 GB/s"])
def test_requests_without_cycles(latency: int, rate: str) -> None:
    on = accelerator(
        dram={"latency_cycles": latency, "bandwidth_bytes_per_second": rate, "in_flight_bytes": 1}
    )
    program = gemm_case(gemm(m=40, k=12, n=20), m=2, k=4, n=5, order="kmn").program
    fast, _ = _same(program, on)
    assert fast == Machine(on, program).run()


def test_kept_tiles_count_while_their_loop_runs() -> None:
    workload = attention_workload(1, 2, 8, 4)
    tiles = GemmTiles(m=4, k=4, n=4, stationarity="os")
    softmax = Rows(rows=2, cols=8)
    spilled, kept = (
        case(workload, *staged_groups(workload, tiles, softmax, tiles, rows)).program
        for rows in (0, 16)
    )
    intermediate = workload.tensors["S"].bytes_per_element * 2 * 8 * 8
    fast, _ = _same(kept)
    assert intermediate < fast.peak_buffer_bytes <= most_reserved_bytes(kept, TOY)
    assert _same(spilled)[0].peak_buffer_bytes <= most_reserved_bytes(spilled, TOY)


def test_looking_in_vain_costs_a_share_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = {"places": 0, "parts": 0}
    compare = FastForward.compare

    def in_vain(self: FastForward, scope: Scope, old: Snapshot) -> None:
        compare(self, scope, old)
        looked["places"] += 1
        looked["parts"] = self.looked_at

    monkeypatch.setattr(FastForward, "compare", in_vain)
    program = gemm_case(gemm(m=2048, k=384, n=512), m=64, k=384, n=64).program
    run = Machine(EDGE, program).run()
    points = looked["places"] * LOOK_POINTS + looked["parts"] * PART_POINTS
    assert points < 5_000 + run.events * EVENT_POINTS / 16
    assert replace(run, events=0) == replace(
        Machine(EDGE, program, fast_forward=False).run(), events=0
    )


@pytest.mark.parametrize("cores", [4, 8])
def test_the_period_of_several_cores_is_found(cores: int) -> None:
    """A loop that is four times as long has no more events."""
    on = load_accelerator("edge", [f"cores.count={cores}"])
    runs = {}
    for m in (8192, 32768):
        of = gemm(m=m, k=512, n=512)
        body = f"""
        group gemm
          spread m {m // cores} cores
          loop n 171
          loop m 32
          keep A buffer x2, B buffer x2, C buffer x2
          do gemm array is
        """
        runs[m] = Machine(on, lower(of, mapping(of, body))).run()
    assert runs[32768].cycles > 3.5 * runs[8192].cycles
    assert runs[32768].events < 1.2 * runs[8192].events


def test_many_operators_cost_what_they_cost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other operators a look sees at most the tiles of the one before, so it stays cheap."""
    one = gemm_case(gemm(m=640, k=64, n=64), m=8, k=64, n=64).program
    _, *lines = program_text(one).splitlines()
    named = [re.sub(r"\b(A|B|C|gemm)\b", rf"\g<1>{i}", line) for i in range(30) for line in lines]
    many = parse_program("\n".join(["program many", *named, ""]))
    sizes, state = [], Array.state

    def sized_state(array: Array) -> tuple[object, ...]:
        sizes.append(len(array.came))
        return state(array)

    monkeypatch.setattr(Array, "state", sized_state)
    alone, together = Machine(EDGE, one).run(), Machine(EDGE, many).run()
    assert max(sizes) <= 2 * len("ABC") < len(many.body)
    assert together.events < 1.5 * 30 * alone.events
    assert together.cycles == Machine(EDGE, many, fast_forward=False).run().cycles


@given(st.integers(0, 10_000))
def test_turns_are_the_same_however_often_one_looks(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - reproducible, not secret
    quantum = random.choice([1, 3, 4, 64])
    lazy, eager = RoundRobinArbiter(quantum), RoundRobinArbiter(quantum)
    for number in range(6):
        cycles, direction = random.choice([1, 5, 64, 130, 700]), random.randint(0, 1)
        for turns in (lazy, eager):
            turns.add(ServiceRequest(cycles, direction, str(number)))
        pause = random.choice([0, 1, 7, 64, 200, 900])
        lazy.advance(pause)
        for _ in range(pause):
            eager.advance(1)
        assert lazy.state() == eager.state()
        if lazy.ring:
            assert lazy.gauges() == eager.gauges()


def test_cases_that_never_repeat_are_the_same() -> None:
    few = [case for case in cases(range(100 * DRAWS)) if case.run.events < 300]
    for found in few:
        fast = Machine(found.on, found.program).run()
        assert replace(fast, events=0) == replace(found.run, events=0)
    assert len(few) > 3 * DRAWS


def test_every_part_moves_on_by_the_whole_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens have no gauges, and ages all the same."""
    skip, seen = FastForward.skip, list[int]()

    def checked(self: FastForward, scope: Scope, old: Snapshot, found: Repetition) -> None:
        assert {interval.cycles for interval in found.intervals} == {found.cycles}
        seen.append(found.times)
        skip(self, scope, old, found)

    monkeypatch.setattr(FastForward, "skip", checked)
    _same(gemm_case(gemm(m=256, k=64, n=64), m=16, k=16, n=16).program)
    assert sum(seen) > 0


def test_nothing_is_spent_before_the_first_events() -> None:
    budget = DetectionBudget(SharedBudget())
    assert not budget.may_look(0)
    assert not budget.may_look(2)
    assert budget.may_look(3)


def test_points_do_not_depend_on_how_often_one_asks() -> None:
    often, once = DetectionBudget(SharedBudget()), DetectionBudget(SharedBudget())
    for events in range(101):
        often.may_look(events)
    once.may_look(100)
    assert often.points == once.points == 12


def test_what_one_watch_takes_in_advance_the_others_wait_for() -> None:
    """100 points are 300 events; at 6 there were 2, too few for a point of one's own."""
    pool = SharedBudget()
    first, second = DetectionBudget(pool), DetectionBudget(pool)
    assert first.may_look(6)
    first.spend(100)
    assert not second.may_look(6)
    assert pool.points_left(300) == 0
    assert pool.points_left(303) == 1


def test_a_rest_lasts_as_long_as_the_pool_needs() -> None:
    """Two events a boundary: 98 points are missing and one more is wanted, 297 events."""
    budget = DetectionBudget(SharedBudget())
    assert budget.may_look(6)
    budget.spend(100)
    assert budget.rest(6, 3) == 148


def test_without_advance_a_watch_saves_up_longer_each_time() -> None:
    budget = DetectionBudget(SharedBudget())
    budget.advance = 0
    pauses = []
    events = 0
    for _ in range(3):
        events += 100_000
        assert budget.may_look(events)
        budget.spend(budget.points + 100)
        pauses.append(budget.rest(events, 1))
        assert not budget.may_look(events + 800)
    assert budget.most == 8 * 1500
    assert pauses == sorted(pauses)


def test_a_skip_fills_pool_and_purse() -> None:
    budget = DetectionBudget(SharedBudget())
    assert budget.may_look(300)
    budget.spend(200 + budget.points)
    budget.reward(150)
    assert budget.pool.spent == 0
    assert budget.points == 1300
