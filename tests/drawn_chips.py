"""Random pods, drawn from a seed: a layer cut over chips, each of one or of several cores."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from simaccel.hardware import Accelerator
from simaccel.hardware.links import LinksSpec
from simaccel.hardware.load import with_values
from simaccel.mapping.chips.handed_tiles import hand_tiles
from simaccel.mapping.chips.sharding import Pod, replace_groups, shard
from simaccel.mapping.tree import Group, Keep, Loop, Mapping
from simaccel.workload import Workload
from tests.drawn_machines import executes
from tests.drawn_places import with_places
from tests.drawn_trees import draw_core_noc
from tests.machine.trees import draw_accelerator
from tests.mapping.chips.feed_forward import feed_forward, spread

Random = random.Random
SHAPES = {2: (2,), 4: (2, 2), 6: (3, 2), 8: (2, 4)}
_TOPOLOGIES = ("all_to_all", "ring", "switch", "torus")
_RANKS = {"FF1": "mef", "act": "mf", "FF2": "mef", "norm": "m"}
_WEIGHTS = {"FF1": "W1", "FF2": "W2", "norm": "g"}
_TRIES = 8
_OVERLAP = 0.5
"""Share of pods whose collectives go beside the cores."""
_SLICED = 0.3
"""Share of tori whose first dimension is that of slices on a network."""
_STORED = 0.2
"""Share of weights that lie once on all chips."""


@dataclass(frozen=True)
class DrawnPod:
    """A workload, an accelerator of several chips, a mapping of all, and what a chip does of it.

    Groups of a chip may have places on its cores, which the mapping of all doesn't say.
    """

    of: Workload
    on: Accelerator
    mapping: Mapping
    pod: Pod


def draw_pod(seed: int) -> DrawnPod | None:
    """Draw a feed-forward layer, chips of one to three cores, and a legal cut over both."""
    draw = Random(f"pod {seed}")
    count = draw.choice(sorted(SHAPES))
    sizes = {"m": 2 * count * draw.randint(1, 2), "f": count * draw.randint(1, 6)}
    sizes["e"] = count * draw.randint(1, 3)
    of = replace(feed_forward(**sizes), repeat=draw.choice([1, 1, 2, 5]))
    on = _accelerator(draw, seed).model_copy(update=draw_chips(draw, count))
    other = Random(f"overlap {seed}")  # what the seeds of before give stays
    links = on.links.model_copy(update={"overlap": other.random() < _OVERLAP})
    if links.topology == "torus" and links.dimensions > 1 and other.random() < _SLICED:
        network = {"network_bytes_per_second": 10**9, "network_start_cycles": 40}
        links = links.model_copy(update={**network, "dimensions": links.dimensions - 1})
    on = on.model_copy(update={"links": links})
    for _ in range(_TRIES):
        cuts = {name: _spread(draw, sizes, ranks, count) for name, ranks in _RANKS.items()}
        stored = [name for name in _WEIGHTS if other.random() < _STORED]
        mapping = _stored_once(_fitted(spread(of, **cuts), sizes["m"]), stored)
        pod, _ = shard(of, mapping, on.pod)
        if pod is not None and executes(on, pod.workload, pod.mapping):
            placed = with_places(draw, pod.workload, on, pod.mapping)
            exchanges = (replace(one, streamed=None) for one in pod.exchanges)
            handed = tuple(hand_tiles(pod.workload, placed, one) for one in exchanges)
            return DrawnPod(of, on, mapping, replace(pod, mapping=placed, exchanges=handed))
    return None


def draw_pod_of_places(seed: int) -> DrawnPod | None:
    """Draw the same with each group on some of the chips, at the same time as others."""
    draw = Random(f"places {seed}")
    count = draw.choice(sorted(SHAPES))
    sizes = {"m": 2 * count * draw.randint(1, 3), "f": count * draw.randint(1, 6)}
    sizes["e"] = count * draw.randint(1, 3)
    of = replace(feed_forward(**sizes), repeat=draw.choice([1, 1, 2, 5]))
    on = _accelerator(draw, seed).model_copy(update=draw_chips(draw, count))
    size = draw.choice([n for n in on.pod.group_sizes if n < count])
    starts = range(0, count, size)
    for _ in range(_TRIES):
        cuts = {name: _spread(draw, sizes, ranks, size) for name, ranks in _RANKS.items()}
        chips = [range(start, start + size) for start in draw.choices(starts, k=len(cuts))]
        if of.repeat > 1:
            chips[-1] = chips[0]  # where the next layer reads what it makes
        plain = spread(of, **cuts)
        groups = zip(plain.groups, chips, strict=True)
        placed = replace(plain, body=tuple(replace(one, chips=place) for one, place in groups))
        mapping = _fitted(placed, draw.randint(0, 1))
        pod, _ = shard(of, mapping, on.pod, on.cores.count)
        if pod is not None and executes(on, pod.workload, pod.mapping):
            return DrawnPod(of, on, mapping, pod)
    return None


def draw_chips(draw: Random, count: int) -> dict[str, object]:
    """Draw links and chips of all topologies and speeds, closed or not."""
    topology = draw.choice(_TOPOLOGIES)
    shape = SHAPES[count] if topology == "torus" else (count,)
    links = LinksSpec.model_validate(
        {
            "topology": topology,
            "dimensions": len(shape),
            "bytes_per_second": draw.choice(["1 GB/s", "7 GB/s", "unlimited"]),
            "closes_at": draw.choice([1, 2, 3, 64]) if topology in ("ring", "torus") else 1,
            "start_cycles": draw.choice([0, 0, 20]),
            "hop_cycles": draw.choice([0, 1, 13]),
            "per_direction": draw.randint(1, 2),
            "chunk_bytes": draw.choice([None, 7, 64, 300, 4096]),
            "pj_per_bit": 1.0,
        }
    )
    return {"links": links, "chips": tuple(shape)}


def _accelerator(draw: Random, seed: int) -> Accelerator:
    fields = {
        "buffer.capacity_bytes": "unlimited",
        "compiler.overlap": draw.random() < 0.75,
        "cores.count": draw.choice([1, 1, 2, 3]),
        "cores.noc.multicast": draw.random() < 0.5,
    }
    on = with_values(draw_accelerator(draw), fields, "drawn")
    return on if on.cores.count == 1 else with_values(on, draw_core_noc(seed), "drawn")


def _spread(draw: Random, sizes: dict[str, int], ranks: str, count: int) -> str:
    kind, rank = draw.choice(["none", "all", "all", "two"]), draw.choice(ranks)
    if kind == "none" or count == 1:
        return ""
    if kind == "all":
        return f"{rank} {sizes[rank] // count}"
    first, other = SHAPES.get(count, (count,))[0], draw.choice(ranks)
    one, left = f"{rank} {sizes[rank] // first}", {**sizes, rank: sizes[rank] // first}
    rest = count // first
    return f"{one}; {other} {left[other] // rest}" if left[other] % rest == 0 else one


def _stored_once(mapping: Mapping, groups: Sequence[str]) -> Mapping:
    """Return a mapping in which the weights of some groups lie once on all chips."""

    def keep(group: Group) -> Group:
        nodes = [Keep(_WEIGHTS[group.name], "chips")] if group.name in groups else []
        return replace(group, tree=(*nodes, *group.tree))

    return replace_groups(mapping, keep)


def _fitted(mapping: Mapping, m: int) -> Mapping:
    """Return a mapping whose loops have tiles of at most two rows, as pieces may be small."""

    def smaller(group: Group) -> Group:
        tree = tuple(
            replace(node, tile=min(node.tile, 1 + m % 2)) if isinstance(node, Loop) else node
            for node in group.tree
        )
        return replace(group, tree=tree)

    return replace_groups(mapping, smaller)
