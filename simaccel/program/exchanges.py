"""The program of one of several chips: what it computes, and exchanges after what they wait for.

An exchange loads what the chip has of a tensor, chunk by chunk, hands it to the links, and stores
what comes back; two slots a tile let loads, links and stores of neighbouring chunks overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.sharding import Pod
from simaccel.mapping.view import TensorView
from simaccel.numbers import BYTE, PACKED_BITS
from simaccel.program.lowering import lower
from simaccel.program.program import Load, Node, Operator, Program, ProgramLoop, Store, Tile
from simaccel.program.unit_commands import Link

EXCHANGE_QUEUE: Final = 3
"""The DMA queue of what goes to links: after those of operands, so that weights come meanwhile."""


def lower_pod(pod: Pod, accelerator: Accelerator) -> Program:
    """Lower what a chip does.

    Raises:
        NotExecutableError: an operand is nowhere where its unit can take it from.

    """
    program = lower(pod.workload, pod.mapping)
    behind: dict[str, list[Operator]] = {}
    for exchange in pod.exchanges:
        group = next(group for group in pod.mapping.groups if exchange.after in group.operators)
        behind.setdefault(group.name, []).append(_operator(exchange, accelerator))
    weaver = _Weaver(behind, pod.parts)
    return replace(program, body=weaver.body(program.body))


def _operator(exchange: Exchange, accelerator: Accelerator) -> Operator:
    body: list[Node] = []
    tiles: list[Tile] = []
    chunks = list(exchange.chunks(accelerator))
    for at, (trips, taken, brought) in enumerate(chunks):
        start = sum(times for times, _, _ in chunks[:at])
        views = (
            _view(exchange.source, exchange.bits, chunks, 1),
            _view(exchange.target, exchange.bits, chunks, 2),
        )
        tiles = [
            Tile(name=view.name, view=view, shape=(1, size), slots=2)
            for view, size in zip(views, (taken, brought), strict=True)
        ]
        link = Link(
            kind=exchange.kind,
            out=tiles[1],
            tile=tiles[0],
            rings=exchange.rings,
            n_bytes=exchange.n_bytes(max(taken, brought)),
        )
        inside = (
            Load(tile=tiles[0], queue=EXCHANGE_QUEUE),
            link,
            Store(tile=tiles[1]),
        )
        body.append(
            ProgramLoop(rank="chunk", trips=trips, start=start, tiles=tuple(tiles), body=inside)
        )
    return Operator(name=exchange.name, body=tuple(body))


def _view(name: str, bits: int, chunks: Sequence[tuple[int, int, int]], side: int) -> TensorView:
    """Return a tensor as chunks and what is in each."""
    return TensorView(
        name=name,
        ranks=("chunk", "x"),
        shape=(sum(chunk[0] for chunk in chunks), max(chunk[side] for chunk in chunks)),
        bytes_per_element=max(1, bits // BYTE),
        packed=bits == PACKED_BITS,
    )


@dataclass
class _Weaver:
    """Puts exchanges after operators, and lets parts of tensors come from where those lie."""

    behind: Mapping[str, Sequence[Operator]]
    parts: Mapping[str, str]
    known: dict[int, tuple[Sequence[Node], tuple[Node, ...]]] = field(default_factory=dict)

    def body(self, body: Sequence[Node]) -> tuple[Node, ...]:
        """Return a body with both; equal bodies stay one object."""
        if id(body) not in self.known:
            found: list[Node] = []
            for node in body:
                found.append(self._node(node))
                if isinstance(node, Operator):
                    found += self.behind.get(node.name, ())
            self.known[id(body)] = body, tuple(found)
        return self.known[id(body)][1]

    def _node(self, node: Node) -> Node:
        if isinstance(node, ProgramLoop | Operator):
            is_same = isinstance(node, Operator) and not self.parts
            return node if is_same else replace(node, body=self.body(node.body))
        if isinstance(node, Load) and node.source is None:
            view = node.view or node.tile.view
            if view.name in self.parts:
                return replace(node, view=replace(view, name=self.parts[view.name]))
        return node
