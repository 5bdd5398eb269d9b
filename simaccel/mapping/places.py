"""Groups that are placed on some of the cores, so that groups on other cores run beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simaccel.hardware.cores import CHIP, CoresSpec
from simaccel.mapping.node_text import Finding, place_text
from simaccel.mapping.tree import Group, Keep, Mapping
from simaccel.workload import Workload
from simaccel.workload.shared import most_shared_bytes


def place_faults(
    workload: Workload, mapping: Mapping, paths: Sequence[str], cores: CoresSpec | None
) -> Iterator[Finding]:
    """Yield the faults of groups on some of the cores; ``paths``: of each group in the mapping.

    The cores of two groups must be the same, disjoint, or one a part of the other, so that it is
    plain which groups can run beside which. Tensors in the cores' shared buffer must fit it.
    """
    known: dict[range, str] = {}
    count = None if cores is None else cores.count
    for at, (group, around) in zip(paths, mapping.groups_with_keeps(), strict=True):
        if group.place is not None:
            text = _text(group.place)
            for allowed in _core_range_faults(group.place, around, known, count):
                yield f"{at}.place", text, allowed
            known.setdefault(group.place, f"{at} ({group.name})")
    if cores is not None and cores.shared_buffer is not None:
        yield from _shared_buffer_faults(workload, mapping, cores.shared_buffer.capacity_bytes)


def _core_range_faults(
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
            shared = f"the cores of {owner} ({_text(other)})"
            yield f"{shared}, a part of them, cores that contain them, or other cores"


def _text(place: range) -> str:
    """Return the cores of a place as text, numbered from 0 on each chip."""
    first = place.start % CHIP
    return place_text(range(first, first + len(place)))


def _shared_buffer_faults(workload: Workload, mapping: Mapping, most: int) -> Iterator[Finding]:
    """Yield a fault if the groups, in their order, need more than the shared buffer's bytes."""
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
    """Return the groups in steps: what a step frees can be used only by later steps.

    Groups that may run at the same time are one step: those with places, and a group on all cores
    after them, which may begin on a core while they run on others.
    """
    steps: list[list[Group]] = []
    is_joined = False
    for group in mapping.groups:
        if not is_joined:
            steps.append([])
        steps[-1].append(group)
        is_joined = group.place is not None
    return steps
