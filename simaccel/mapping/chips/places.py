"""Places on chips: groups on some chips of a pod, at the same time as others on other chips.

All places have as many chips, linked alike, so that chip n of one sends to chip n of another what
that one reads: one chip of each place stands for all of its chips. Where the outermost loops of
both groups cut a tensor alike, tiles go as they are made, as between cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simaccel.hardware.chips import ChipPod
from simaccel.hardware.collectives import LinkAxis
from simaccel.hardware.cores import CHIP, REMOTE
from simaccel.mapping.chips.exchanges import Exchange, HandedTiles
from simaccel.mapping.node_text import place_text
from simaccel.mapping.tile_streams import matching_cuts, outer_cuts, stream_of, tile_streams
from simaccel.mapping.tree import Group, Mapping
from simaccel.workload import Workload


@dataclass(frozen=True)
class ChipPlace:
    """The chips of an operator: the first of them, all of the pod, and cores that each has.

    ``cores``: as programs count them where groups are on several chips.
    """

    pod: ChipPod
    first: int = 0
    cores: range | None = None

    def route(self, target: int) -> tuple[LinkAxis, ...]:
        """Return over how many links of each dimension messages go to the chips from ``target``."""
        return self.pod.route(self.first, target)


def first_chip(group: Group) -> int:
    """Return the first chip of a group."""
    return 0 if group.chips is None else group.chips.start


def cores_of_group(group: Group, count: int) -> range | None:
    """Return the cores of a group as programs count them: as they are where it says no chips."""
    if group.chips is None:
        return group.place
    place, first = group.place or range(count), group.chips.start * CHIP
    return range(first + place.start, first + place.stop)


def remote_cores(chip: int) -> range:
    """Return what sends and receives on a chip, as a place of programs."""
    number = chip * CHIP + REMOTE
    return range(number, number + 1)


def place_faults(
    groups: Sequence[tuple[str, Group]], pod: ChipPod | None
) -> Iterator[tuple[str, object, str]]:
    """Yield what is wrong with the chips of groups, and where each stands.

    Any two places are equal, or have as many chips and none in common.
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


def hand_tiles(workload: Workload, mapping: Mapping, exchange: Exchange) -> Exchange:
    """Return a message whose tiles go one by one, where its maker and all readers have the same.

    ``workload`` and ``mapping``: of one chip of each place.
    """
    readers = [
        group
        for group in mapping.groups
        for name in group.operators
        if any(operand.tensor == exchange.target for operand in workload.operator(name).inputs)
    ]
    maker = next(group for group in mapping.groups if exchange.after in group.operators)
    made = workload.operator(exchange.after).output.tensor
    is_whole = exchange.is_message and exchange.before.dims == exchange.behind.dims
    if not is_whole or made != exchange.source or len(readers) != 1:
        return exchange
    if workload.times(exchange.after) != workload.times(readers[0].operators[0]):
        return exchange
    cuts = matching_cuts(
        list(outer_cuts(workload, exchange.source, maker))[:1],
        outer_cuts(workload, exchange.target, readers[0]),
    )
    streams = tile_streams(workload, mapping)
    handed = {stream.maker_ranks for stream in streams if stream.tensor == exchange.source}
    if not cuts or len(handed | {(cuts[0][0].rank,)}) > 1:
        return exchange
    cut, _ = cuts[0]
    each = exchange.most // cut.size
    full, rest = divmod(cut.size, cut.tile)
    tiles = ((full, cut.tile * each), *([(1, rest * each)] if rest else []))
    handed_stream = stream_of(exchange.target, maker, readers[0], cuts)
    return replace(exchange, handed=HandedTiles(handed_stream, tiles))
