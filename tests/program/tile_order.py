"""What operators store of a tensor before each tile that they hand on, and read after each wait.

A plain walk through a program, which knows of no engines: for checks that tiles are there in time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeGuard

from simaccel.program.fit import operators_with_tiles
from simaccel.program.program import (
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Store,
    between_tiles,
    transfer_of,
)

Elements = set[tuple[int, ...]]


@dataclass
class TileOrder:
    """By tile of a tensor, from the first: the elements that are stored, or read, with it."""

    tiles: list[Elements] = field(default_factory=lambda: [set()])

    @property
    def count(self) -> int:
        """Number of tiles that are handed on, or waited for."""
        return len(self.tiles) - 1


def stored_order(program: Program, operator: str, tensor: str) -> TileOrder:
    """Return the elements that an operator stores before it hands on each tile."""
    order = TileOrder()
    for what, elements in _walk(_find(program, operator), tensor):
        if what == "hand on":
            order.tiles.append(set())
        elif what == "store":
            order.tiles[-1] |= elements
    return order


def read_order(program: Program, operator: str, tensor: str) -> TileOrder:
    """Return the elements that an operator reads after its wait for each tile; the first: none."""
    order = TileOrder()
    for what, elements in _walk(_find(program, operator), tensor):
        if what == "await":
            order.tiles.append(set())
        elif what == "load":
            order.tiles[-1] |= elements
    return order


def _find(program: Program, operator: str) -> Operator:
    return next(one for one, _ in operators_with_tiles(program.body) if one.name == operator)


def _walk(operator: Operator, tensor: str) -> Iterator[tuple[str, Elements]]:
    """Yield what an operator does with a tensor, in the order of its text, on one core."""
    derived = dict(operator.derived)

    def inside(body: Sequence[Node], at: dict[str, int]) -> Iterator[tuple[str, Elements]]:
        for node in body:
            if isinstance(node, ProgramLoop):
                assert node.core is None or node.trips == 1, "one core only"
                for trip in range(node.trips):
                    start = at.get(node.rank, 0) + node.start + trip * node.step
                    awaited = [tiles for tiles in node.awaits if tiles.tensor == tensor]
                    yield from (("await", set[tuple[int, ...]]()) for _ in awaited)
                    yield from inside(node.body, {**at, node.rank: start})
                    yield from [("hand on", set[tuple[int, ...]]())] * (tensor in node.hands_on)
            elif _moves(node, tensor):
                what = "load" if isinstance(node, Load) else "store"
                yield what, _elements(node, at, derived)

    yield from inside(operator.body, {})


def _moves(node: Node, tensor: str) -> TypeGuard[Load | Store]:
    if not isinstance(node, Load | Store) or between_tiles(node):
        return False
    return transfer_of(node)[0].name == tensor


def _elements(
    node: Load | Store, at: dict[str, int], derived: dict[str, tuple[tuple[str, int], ...]]
) -> Elements:
    """Return the elements of the tile of a transfer."""
    sums = {rank: sum(c * at.get(one, 0) for one, c in terms) for rank, terms in derived.items()}
    low = node.tile.view.start({**at, **sums})
    ranges = (range(a, a + n) for a, n in zip(low, node.tile.shape, strict=True))
    return set(product(*ranges))
