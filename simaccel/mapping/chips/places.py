"""Groups that are placed on some chips of a pod, and run beside groups on other chips.

All places have the same number of chips, linked alike, so that chip n of one sends to chip n of
another: one chip of each place is simulated and stands for all of its chips. Where the outermost
loops of both groups cut a tensor alike, tiles are sent as they are made, as between cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simaccel.hardware.chips import ChipPod
from simaccel.hardware.cores import CHIP, REMOTE
from simaccel.mapping.node_text import place_text
from simaccel.mapping.tree import Group


@dataclass(frozen=True)
class ChipPlace:
    """The place of an operator in a pod: its ``first`` chip, and the cores on each of its chips.

    ``cores``: as programs number them (`cores_of_group`); None: all cores of all chips.
    """

    pod: ChipPod
    first: int = 0
    cores: range | None = None


def first_chip(group: Group) -> int:
    """Return the first chip of a group; 0 if it is on all chips."""
    return 0 if group.chips is None else group.chips.start


def cores_of_group(group: Group, count: int) -> range | None:
    """Return the cores of a group as programs number them: chip * `CHIP` + core.

    ``count``: cores of a chip. A group on all chips keeps its own numbers.
    """
    if group.chips is None:
        return group.place
    place, first = group.place or range(count), group.chips.start * CHIP
    return range(first + place.start, first + place.stop)


def remote_cores(chip: int) -> range:
    """Return the place, in programs, of the unit that sends and receives on a chip."""
    number = chip * CHIP + REMOTE
    return range(number, number + 1)


def place_faults(
    groups: Sequence[tuple[str, Group]], pod: ChipPod | None
) -> Iterator[tuple[str, object, str]]:
    """Yield the faults of groups on some of the chips; ``groups``: (path in the mapping, group).

    Two places must be equal, or have the same number of chips and none in common.
    """
    known: dict[range, str] = {}
    placed = [(at, group) for at, group in groups if group.chips is not None]
    for at, group in groups if placed else ():
        text = place_text(group.place, group.chips)
        if group.chips is None:
            yield f"{at}.place", text or "none", f"chips, as {placed[0][0]} has"
            continue
        for allowed in _place_problems(group.chips, known, pod):
            yield f"{at}.place", text, allowed
        known.setdefault(group.chips, f"{at} ({group.name})")


def _place_problems(place: range, known: dict[range, str], pod: ChipPod | None) -> Iterator[str]:
    for taken, owner in known.items():
        text = f"{place_text(None, taken)} as {owner} has"
        if len(taken) != len(place):
            yield f"{len(taken)} chips, like {text}"
        elif taken != place and range(max(place[0], taken[0]), min(place[-1], taken[-1]) + 1):
            yield f"{text}, or none of them"
    if pod is None:
        return
    if place.stop > pod.count:
        yield f"chips 0 to {pod.count - 1}"
    elif len(place) not in pod.group_sizes:
        sizes = ", ".join(map(str, pod.group_sizes))
        yield f"as many chips as are linked like a pod of their own: {sizes}"
    elif place.start % len(place):
        yield f"a first chip that is a multiple of their number, {len(place)}"
