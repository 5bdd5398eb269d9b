"""Random programs that no mapping makes: chains of tiles in loops, merged in any order."""

from dataclasses import replace

from hypothesis import strategies as st

from simaccel.hardware import STATIONARITIES
from simaccel.mapping.view import TensorView
from simaccel.program.program import (
    Command,
    Compute,
    Folds,
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Store,
    Tile,
)
from tests.program.tree import softmax_of


@st.composite
def _chain(draw: st.DrawFn, name: str, most: int) -> tuple[Tile, list[Command | ProgramLoop]]:
    """A tile that is loaded, worked on by array and SFU in any order, and perhaps stored."""
    kind = draw(st.sampled_from(["weight", ""]))
    view = TensorView(
        name=name, ranks=("g", "q", "c"), shape=(9, 9, 9), bytes_per_element=2, kind=kind
    )
    tile = Tile(name=name, view=view, shape=(1, 2, 3), slots=draw(st.integers(1, 3)))
    # perhaps what the operator before has stored
    number = int(name[1])
    other = replace(view, name=f"T{number - 1}{name[2:]}")
    outside = draw(st.sampled_from([None, other])) if number else None
    nodes: list[Command | ProgramLoop] = [
        Load(tile=tile, queue=draw(st.integers(0, 2)), view=outside)
    ]
    for work in draw(st.lists(st.sampled_from(["array", "sfu", "inner"]), min_size=1, max_size=4)):
        if work == "sfu":
            elements = draw(st.integers(1, 40))
            nodes.append(softmax_of(tile, (1, 1, elements)))
        elif work == "array":
            nodes.append(draw(_product(tile, tile)))
        else:
            nodes.append(draw(_reduction(tile, most)))
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
        on=Folds(draw(st.sampled_from(STATIONARITIES)), diagonal=draw(st.booleans())),
    )


def _seen(tile: Tile, ranks: str) -> Tile:
    """Give a tile the ranks that it plays in a product; its size stays."""
    return replace(tile, view=replace(tile.view, ranks=(ranks,)))


@st.composite
def _reduction(draw: st.DrawFn, out: Tile, most: int) -> ProgramLoop:
    """An inner loop that loads tiles of its own and adds them to one of an outer body."""
    name = f"{out.name}_{draw(st.integers(0, 1))}"
    view = TensorView(name=name, ranks=("g", "q", "c"), shape=(9, 9, 9), bytes_per_element=2)
    # tiles of one name share their slots, whatever body they are in
    tile = Tile(name=name, view=view, shape=(1, 1, 2), slots=len(name) % 3 + 1)
    return ProgramLoop(
        rank="c",
        trips=draw(st.integers(1, most)),
        tiles=(tile,),
        body=(Load(tile=tile, queue=1), draw(_product(out, tile))),
    )


@st.composite
def _bodies(
    draw: st.DrawFn, name: str, depth: int, most: int
) -> tuple[tuple[Tile, ...], tuple[Node, ...]]:
    """Chains of tiles, merged in any order, and loops between them."""
    chains = [draw(_chain(f"{name}{i}", most)) for i in range(draw(st.integers(1, 3)))]
    queues = [list(nodes) for _, nodes in chains]
    if depth:
        queues += [
            [draw(_loops(f"{name}x{i}", depth - 1, most)) for i in range(draw(st.integers(0, 2)))]
        ]
    nodes: list[Node] = []
    while any(queues):
        left = [queue for queue in queues if queue]
        nodes.append(left[draw(st.integers(0, len(left) - 1))].pop(0))
    return tuple(tile for tile, _ in chains), tuple(nodes)


@st.composite
def _loops(draw: st.DrawFn, name: str, depth: int, most: int) -> ProgramLoop:
    tiles, body = draw(_bodies(name, depth, most))
    return ProgramLoop(rank="q", trips=draw(st.integers(1, most + 1)), tiles=tiles, body=body)


@st.composite
def programs(draw: st.DrawFn, most: int = 4) -> Program:
    """Draw up to ``most`` operators, some in a loop of layers, of loops of about as many trips."""
    operators: list[Operator] = []
    for i in range(draw(st.integers(1, most))):
        names = [f"T{i}_{n}" for n in range(draw(st.integers(1, 2)))]
        loops = [draw(_loops(name, draw(st.integers(0, 1)), most)) for name in names]
        operators.append(Operator(name=f"operator{i}", body=tuple(loops)))
    cut, trips = draw(st.integers(0, len(operators))), draw(st.integers(1, most))
    layers = ProgramLoop(rank="layer", trips=trips, body=tuple(operators[:cut]))
    return Program(name="random", body=((layers,) if cut else ()) + tuple(operators[cut:]))
