"""Whether what is legal is right, and what is right is legal: checks against the brute force."""

from dataclasses import dataclass, replace
from typing import Final

from simaccel.hardware import Accelerator
from simaccel.mapping.checks import faults
from simaccel.mapping.tree import Fork, Mapping, Node, Part, Tree
from simaccel.workload import Workload
from tests.mapping.positions import WrongPositionsError, require_positions

REFUSED: Final = ("sees another box of", "which it sums", "of them moves", "is read again by")
"""What is refused though each position is made once (docs/decisions/mapping.md):
operators of one group with different boxes of a tensor, one that is written over in one box and
read in another among them, and one tile that parts keep each for themselves."""


@dataclass(frozen=True)
class Judged:
    """The verdict on a tree: whether it is legal, and whether it is refused though it is right.

    ``wrong``: what checks and brute force differ in, if they do.
    """

    legal: bool
    refused: bool = False
    wrong: str = ""


def judged(of: Workload, one: Mapping, on: Accelerator) -> Judged:
    """Hold the checks of a tree against the brute force, both ways.

    The brute force has no time: it knows nothing of branches that run an iteration early.
    """
    found = faults(of, one, on)
    if not found:
        return Judged(legal=True, wrong=_wrong(of, one))
    late = replace(one, body=tuple(replace(group, tree=_late(group.tree)) for group in one.groups))
    found = found if late == one else faults(of, late, on)
    wrong = _wrong(of, late)
    if not found:
        return Judged(legal=False, wrong=wrong)
    if wrong:
        return Judged(legal=False)
    if any(known in one.allowed for one in found for known in REFUSED):
        return Judged(legal=False, refused=True)
    return Judged(legal=False, refused=True, wrong="; ".join(map(str, found)))


def _wrong(of: Workload, one: Mapping) -> str:
    try:
        require_positions(of, one)
    except WrongPositionsError as error:
        return str(error)
    return ""


def _late(tree: Tree) -> Tree:
    """Return a tree none of whose branches runs early."""
    found: list[Node] = []
    for node in tree:
        if isinstance(node, Fork):
            found.append(Fork(tuple(map(_late, node.branches))))
        elif isinstance(node, Part):
            found.append(replace(node, branches=tuple(map(_late, node.branches))))
        else:
            found.append(node)
    return tuple(found)
