"""What was worked out before: schedulers come to the same candidates and blocks again.

Several dataflows search the same grids (all of FLAT's granularities are also FLAT's, and those of
the best dataflow's), and a buffer of another size changes what fits, not how long it takes. The key
has all that a family's times depend on, by content; a family that differs in anything else than the
buffer's size, names, areas and energies is worked out anew. Candidates that differ have blocks of
the same sizes: what one costs depends on much less.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from simaccel.analytic.blocks import Block
from simaccel.analytic.family import Branch, Family, Forked, Ints, Loops, Parted
from simaccel.hardware import Accelerator
from simaccel.mapping.space import Space
from simaccel.workload import VECTORS, Vector

_MOST: Final = 4096
"""Families whose times are kept; then all are forgotten (some 10 MB)."""
_MOST_BLOCKS: Final = 4096
"""Blocks that are kept of each of the last accelerators (some 10 MB)."""
_known: dict[bytes, Ints] = {}


def known_times(family: Family, accelerator: Accelerator, anew: Callable[[], Ints]) -> Ints:
    """Return the times of a family on an accelerator, as worked out before, or ``anew``.

    What is kept around groups depends on the rest of the workload: such families are not kept.
    """
    if family.around:
        return anew()
    key = _key(family, accelerator)
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        found = _known[key] = anew()
        found.flags.writeable = False
    return found


def forget() -> None:
    """Forget all, for tests of what works it out."""
    _known.clear()
    _blocks_on.cache_clear()


def known_block(accelerator: Accelerator, key: object, anew: Callable[[], Block]) -> Block:
    """Return what a block costs on an accelerator, as worked out before, or ``anew``.

    ``key``: all that it depends on beside the accelerator.
    """
    blocks = _blocks_on(accelerator.timed)
    found = blocks.get(key)
    if found is None:
        if len(blocks) >= _MOST_BLOCKS:
            blocks.clear()
        found = blocks[key] = anew()
    return found


@lru_cache(maxsize=8)
def _blocks_on(_timed: str) -> dict[object, Block]:
    return {}


def _key(family: Family, accelerator: Accelerator) -> bytes:
    """Return a digest of all that decides the times of a family."""
    digest = hashlib.sha256()
    head = (accelerator.timed, _space_text(family.space), sorted(family.aliases.items()))
    digest.update(repr(head).encode())
    for name, array in sorted(family.held.items()):
        digest.update(name.encode() + _content(array))
    for part in _parts(family.branch):
        digest.update(part)
    return digest.digest()


def _space_text(space: Space) -> str:
    """Return the ranks and operators of a group, and what of it the rest of a workload reads."""
    kinds = [one.operator.kind for one in space.operators if isinstance(one.operator, Vector)]
    steps = [(kind, dict(VECTORS[kind].steps)) for kind in kinds]
    ranks = (space.sizes, space.derived, space.axes, space.rows)
    return repr((ranks, space.operators, steps, sorted(space.escapes)))


def _parts(branch: Branch) -> Iterator[bytes]:
    """Yield what stands in a branch, its numbers with their shapes."""
    for node in branch:
        yield type(node).__name__.encode()
        if isinstance(node, Loops):
            yield repr(node.ranks).encode()
            for array in (*node.tiles, *node.places):
                yield _content(array)
        elif isinstance(node, Forked | Parted):
            yield repr((len(node.branches), getattr(node, "ahead", 0))).encode()
            for inner in node.branches:
                yield b"("
                yield from _parts(inner)
                yield b")"
        else:
            for value in vars(node).values():
                yield _content(value) if hasattr(value, "shape") else repr(value).encode()


def _content(array: Ints) -> bytes:
    """Return an array's shape and numbers."""
    return repr(array.shape).encode() + array.tobytes()
