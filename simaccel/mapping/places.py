"""Places: groups on some of the cores, so that those on other cores can run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simaccel.hardware.cores import CHIP, CoresSpec
from simaccel.mapping.cores import Finding
from simaccel.mapping.node_text import place_text
from simaccel.mapping.tree import Group, Keep, Mapping
from simaccel.workload import Workload
from simaccel.workload.shared import most_shared_bytes


def crossings(
    workload: Workload, mapping: Mapping, where: Sequence[str], cores: CoresSpec | None
) -> Iterator[Finding]:
    """Yield what is wrong with groups on cores beside one another; ``where`` each group stands.

    Two places are equal, have no core in common, or one is inside the other, so that it is plain
    which groups can run beside which. What is in the buffer that cores share has to fit it.
    """
    known: dict[range, str] = {}
    count = None if cores is None else cores.count
    for at, (group, around) in zip(where, mapping.groups_with_keeps(), strict=True):
        if group.place is not None:
            text = _text(group.place)
            for allowed in _place_problems(group.place, around, known, count):
                yield f"{at}.place", text, allowed
            known.setdefault(group.place, f"{at} ({group.name})")
    if cores is not None and cores.shared_buffer is not None:
        yield from _crowded_order(workload, mapping, cores.shared_buffer.capacity_bytes)


def _place_problems(
    place: range, around: Sequence[Keep], known: dict[range, str], count: int | None
) -> Iterator[str]:
    if around:
        names = ", ".join(dict.fromkeys(keep.tensor for keep in around))
        yield f"no place where {names} stays in the buffer of core 0"
    if count is not None and place[-1] % CHIP >= count:
        yield f"cores 0 to {count - 1}, as cores.count is {count}"
    for other, owner in known.items():
        common = range(max(place.start, other.start), min(place.stop, other.stop))
        if common and common not in (place, other):
            yield f"{_text(other)} as {owner} has, some of them, none of them, or all and more"


def _text(place: range) -> str:
    """Return the cores of a place, whichever chip they are on."""
    first = place.start % CHIP
    return place_text(range(first, first + len(place)))


def _crowded_order(workload: Workload, mapping: Mapping, most: int) -> Iterator[Finding]:
    """Yield an order of groups in which too much is in the buffer that cores share."""
    steps = [[name for group in step for name in group.operators] for step in _steps(mapping)]
    if {name for step in steps for name in step} != set(workload.by_name):
        return
    if workload.repeat > 1 and any(group.place is not None for group in mapping.groups):
        steps = [[name for step in steps for name in step]]
    n_bytes = most_shared_bytes(workload, steps)
    if n_bytes > most:
        allowed = f"groups that have at most {most} B in cores.shared_buffer"
        yield "groups", f"{n_bytes} B", allowed


def _steps(mapping: Mapping) -> list[list[Group]]:
    """Return the groups of which one may hand over its room only when all are done.

    A group on all cores may begin on one while groups before it, with places, run on others.
    """
    steps: list[list[Group]] = []
    is_joined = False
    for group in mapping.groups:
        if not is_joined:
            steps.append([])
        steps[-1].append(group)
        is_joined = group.place is not None
    return steps
