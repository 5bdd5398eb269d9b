"""The machine against max-plus recurrences, where nobody shares a resource."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES, Accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.view import View
from simaccel.program.lowering import lower
from simaccel.program.program import (
    Command,
    Compute,
    Folds,
    Load,
    Loop,
    Node,
    Operator,
    Program,
    Store,
    Tile,
)
from simaccel.program.text import program_text
from tests.drawn_trees import draw_case
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator, accelerators
from tests.machine.max_plus import cycles_alone
from tests.program.programs import (
    Case,
    FlatTiles,
    attention_workload,
    case,
    flat_group,
    fused_cases,
    gemm_cases,
    separate_cases,
    staged_cases,
)
from tests.program.tree import softmax_of

UNLIMITED = {"topology": "unlimited"}
PORTS = {"read_bytes_per_second": "unlimited", "write_bytes_per_second": "unlimited"}
PIPES = {"distribution": UNLIMITED, "collection": UNLIMITED}
ALONE = accelerators(
    dram={"bandwidth_bytes_per_second": "unlimited", "in_flight_bytes": "unlimited"},
    buffer=PORTS,
    noc=PIPES,
    memories={},
)
ONE_QUEUE = accelerators(
    dram={"in_flight_bytes": "unlimited"},
    buffer=PORTS,
    noc=PIPES,
    dma={"in_queues": "single"},
    memories={},
)


def _without_stores(body: Sequence[Node]) -> tuple[Node, ...]:
    found: list[Node] = []
    for node in body:
        if isinstance(node, Loop):
            found.append(Loop(**(vars(node) | {"body": _without_stores(node.body)})))
        elif isinstance(node, Operator):
            found.append(
                Operator(name=node.name, tiles=node.tiles, body=_without_stores(node.body))
            )
        elif not isinstance(node, Store):
            found.append(node)
    return tuple(found)


def _assert_equal(on: Accelerator, program: Program) -> None:
    assert Machine(on, program).run().cycles == cycles_alone(on, program), program_text(program)


@given(gemm_cases() | separate_cases() | staged_cases() | fused_cases(online=False), ALONE)
def test_lowered_programs_take_the_cycles_of_the_recurrence(case: Case, on: Accelerator) -> None:
    _assert_equal(on, case.program)


def _alone(on: Accelerator, latency: int) -> Accelerator:
    """Give the same with ways that nobody waits for, and a latency."""
    raw = on.model_dump()
    raw.pop("memories", None)
    raw["buffer"] |= PORTS
    raw["noc"] |= {way: {**raw["noc"][way], **UNLIMITED} for way in PIPES}
    raw["dram"] |= {"bandwidth_bytes_per_second": "unlimited", "latency_cycles": latency}
    raw["dram"] |= {"in_flight_bytes": "unlimited"}
    raw["buffer"] |= {"capacity_bytes": "unlimited"}
    return Accelerator.model_validate(raw)


@pytest.mark.parametrize("block", range(10))
def test_drawn_trees_take_the_cycles_of_the_recurrence(block: int) -> None:
    found = 0
    for seed in range(block * 6 * DRAWS, (block + 1) * 6 * DRAWS):
        drawn = draw_case(seed, spatial=True)
        if drawn is not None:
            _assert_equal(_alone(drawn.on, seed % 7), lower(drawn.of, drawn.mapping))
            found += 1
    assert found > DRAWS


@given(gemm_cases() | separate_cases() | fused_cases(online=False), ONE_QUEUE)
def test_one_requester_of_the_dram_takes_the_cycles_of_the_recurrence(
    case: Case, on: Accelerator
) -> None:
    _assert_equal(on, Program(name="loads", body=_without_stores(case.program.body)))


@given(fused_cases(online=True), ALONE)
def test_online_softmax_is_never_faster_than_the_recurrence(case: Case, on: Accelerator) -> None:
    """An engine claims, or waits for, an outer tile before the loop that touches it begins."""
    assert Machine(on, case.program).run().cycles >= cycles_alone(on, case.program)


@st.composite
def _chain(draw: st.DrawFn, name: str) -> tuple[Tile, list[Command | Loop]]:
    """A tile that is loaded, worked on by array and SFU in any order, and perhaps stored."""
    kind = draw(st.sampled_from(["weight", ""]))
    view = View(name=name, ranks=("g", "q", "c"), shape=(9, 9, 9), bytes_per_element=2, kind=kind)
    tile = Tile(name=name, view=view, shape=(1, 2, 3), slots=draw(st.integers(1, 3)))
    # perhaps what the operator before has stored
    number = int(name[1])
    other = replace(view, name=f"T{number - 1}{name[2:]}")
    outside = draw(st.sampled_from([None, other])) if number else None
    nodes: list[Command | Loop] = [Load(tile=tile, queue=draw(st.integers(0, 2)), view=outside)]
    for work in draw(st.lists(st.sampled_from(["array", "sfu", "inner"]), min_size=1, max_size=4)):
        if work == "sfu":
            elements = draw(st.integers(1, 40))
            nodes.append(softmax_of(tile, (1, 1, elements)))
        elif work == "array":
            nodes.append(draw(_product(tile, tile)))
        else:
            nodes.append(draw(_reduction(tile)))
    if draw(st.booleans()):
        nodes.append(Store(tile=tile))
    return tile, nodes


@st.composite
def _product(draw: st.DrawFn, out: Tile, operand: Tile) -> Compute:
    m, k, n = (draw(st.integers(1, 9)) for _ in "mkn")
    return Compute(
        out=_seen(out, "g+m+n"),
        inputs=(_seen(operand, "g+m+k"), _seen(operand, "g+k+n")),
        ranks=("g", "m", "k", "n"),
        shape=(draw(st.integers(1, 2)), m, k, n),
        on=Folds(draw(st.sampled_from(STATIONARITIES))),
    )


def _seen(tile: Tile, ranks: str) -> Tile:
    """Give a tile the ranks that it plays in a product; its size stays."""
    return replace(tile, view=replace(tile.view, ranks=(ranks,)))


@st.composite
def _reduction(draw: st.DrawFn, out: Tile) -> Loop:
    """An inner loop that loads tiles of its own and adds them to one of an outer body."""
    name = f"{out.name}_{draw(st.integers(0, 1))}"
    view = View(name=name, ranks=("g", "q", "c"), shape=(9, 9, 9), bytes_per_element=2)
    # tiles of one name share their slots, whatever body they are in
    tile = Tile(name=name, view=view, shape=(1, 1, 2), slots=len(name) % 3 + 1)
    return Loop(
        rank="c",
        trips=draw(st.integers(1, 4)),
        tiles=(tile,),
        body=(Load(tile=tile, queue=1), draw(_product(out, tile))),
    )


@st.composite
def _bodies(draw: st.DrawFn, name: str, depth: int) -> tuple[tuple[Tile, ...], tuple[Node, ...]]:
    """Chains of tiles, merged in any order, and loops between them."""
    chains = [draw(_chain(f"{name}{i}")) for i in range(draw(st.integers(1, 3)))]
    queues = [list(nodes) for _, nodes in chains]
    if depth:
        queues += [[draw(_loops(f"{name}x{i}", depth - 1)) for i in range(draw(st.integers(0, 2)))]]
    nodes: list[Node] = []
    while any(queues):
        left = [queue for queue in queues if queue]
        nodes.append(left[draw(st.integers(0, len(left) - 1))].pop(0))
    return tuple(tile for tile, _ in chains), tuple(nodes)


@st.composite
def _loops(draw: st.DrawFn, name: str, depth: int) -> Loop:
    tiles, body = draw(_bodies(name, depth))
    return Loop(rank="q", trips=draw(st.integers(1, 5)), tiles=tiles, body=body)


@st.composite
def _programs(draw: st.DrawFn) -> Program:
    operators: list[Operator] = []
    for i in range(draw(st.integers(1, 4))):
        names = [f"T{i}_{n}" for n in range(draw(st.integers(1, 2)))]
        loops = [draw(_loops(name, draw(st.integers(0, 1)))) for name in names]
        operators.append(Operator(name=f"operator{i}", body=tuple(loops)))
    cut, trips = draw(st.integers(0, len(operators))), draw(st.integers(1, 4))
    layers = Loop(rank="layer", trips=trips, body=tuple(operators[:cut]))
    return Program(name="random", body=((layers,) if cut else ()) + tuple(operators[cut:]))


@given(_programs(), ALONE)
def test_random_programs_take_the_cycles_of_the_recurrence(
    program: Program, on: Accelerator
) -> None:
    _assert_equal(on, program)


@given(_programs(), ONE_QUEUE)
def test_random_programs_with_one_requester_take_the_cycles_of_the_recurrence(
    program: Program, on: Accelerator
) -> None:
    _assert_equal(on, Program(name="loads", body=_without_stores(program.body)))


@pytest.mark.parametrize("pipelined", [False, True])
def test_online_softmax_takes_the_cycles_of_the_recurrence(*, pipelined: bool) -> None:
    tiles = FlatTiles(rows=4, keys=4, online=True, pipelined=pipelined, tile_slots=2)
    workload = attention_workload(1, 1, 16, 4)
    _assert_equal(accelerator(), case(workload, flat_group(workload, tiles)).program)
