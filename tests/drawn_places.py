"""Random small graphs whose operators have places on some of the cores, drawn from a seed."""

import random
from dataclasses import replace

from simaccel.hardware import Accelerator
from simaccel.hardware.load import with_values
from simaccel.mapping.cores import core_spreads
from simaccel.mapping.space import space_of
from simaccel.mapping.tree import Do, Group, Keep, Loop, Mapping, Spread, Tree, WorkloadReference
from simaccel.workload import Operator, Workload
from tests.drawn_machines import executes
from tests.drawn_trees import Drawn, draw_accelerator, draw_mapping
from tests.trees import einsum, vector, workload

Random = random.Random
_TRIES = 40


def draw_graph(draw: Random) -> Workload:
    """Draw two to six operators that read what others made, or tensors that nobody makes."""
    m, n = draw.randint(1, 7), draw.randint(1, 5)
    operators: list[Operator] = []
    made: list[str] = []
    for number in range(draw.randint(2, 6)):
        name, out = f"o{number}", f"T{number}"
        given = draw.choice([*made, f"X{number}", "X"]) if draw.random() < 0.8 else f"X{number}"
        other = draw.choice([*made, f"X{number}"])
        kind = draw.choice(["product", "product", "relu", "residual"])
        if kind == "product":
            weight = f"W{draw.choice([number, 0])}"
            operators.append(
                einsum(name, f"{out} m n", f"{given} m k", f"{weight} k n", m=m, k=n, n=n)
            )
        elif kind == "relu" or other == given:
            operators.append(vector(name, "relu", f"{out} m n", f"{given} m n", m=m, n=n))
        else:
            reads = (f"{given} m n", f"{other} m n")
            operators.append(vector(name, "residual", f"{out} m n", *reads, m=m, n=n))
        made.append(out)
    names = {one.output.tensor for one in operators}
    names |= {given.tensor for one in operators for given in one.inputs}
    bits = {name: draw.choice([8, 16, 32]) for name in sorted(names)}
    weights = [name for name in sorted(names) if name[0] == "W" and draw.random() < 0.8]
    return workload(*operators, bits=bits, repeat=draw.choice([1, 1, 2, 5]), weights=weights)


def draw_placed(seed: int) -> Drawn | None:
    """Draw a graph, cores, and a legal mapping of which most groups have places."""
    draw = Random(f"places {seed}")
    of, on = draw_graph(draw), _with_cores(draw, draw_accelerator(draw, spatial=False))
    for _ in range(_TRIES):
        one = draw_mapping(draw, of, on, most=draw.choice([1, 1, 2]))
        if executes(on, of, one):
            placed = with_places(draw, of, on, one)
            return Drawn(of, on, with_tiles_alike(draw, of, on, placed))
    return None


def draw_windows(seed: int) -> Drawn | None:
    """Draw two filters on cores of their own; the second reads windows of what the first makes.

    Its tiles begin where those of the first do.
    """
    draw = Random(f"windows {seed}")
    stride, window, tile = draw.randint(1, 3), draw.randint(1, 5), draw.randint(1, 3)
    rows = draw.randint(2, draw.choice([8, 90]))
    m, n = draw.randint(1, 4), draw.randint(1, 4)
    of = workload(
        einsum("one", "S m p", "X c p", "V m c", m=m, c=2, p=(rows - 1) * stride + window),
        einsum("two", "Y n p", f"S m {stride}*p+r", "W n m r", n=n, m=m, p=rows, r=window),
        weights=["V", "W"],
        repeat=draw.choice([1, 1, 3]),
    )
    on = _with_cores(draw, draw_accelerator(draw, spatial=False))
    first = draw.randint(1, on.cores.count - 1)
    groups = (
        _filter(draw, "one", "XVS", ("m", m, stride * tile), range(first)),
        _filter(draw, "two", "SWY", ("n", n, tile), range(first, on.cores.count)),
    )
    reference = WorkloadReference(of.name, of.fingerprint)
    one = Mapping(workload=reference, dataflow="drawn", body=groups)
    return Drawn(of, on, one) if executes(on, of, one) else None


def _filter(
    draw: Random, name: str, tensors: str, cut: tuple[str, int, int], place: range
) -> Group:
    """Return a group that goes through rows in tiles, with a rank over its cores."""
    rank, size, tile = cut
    kept: Tree = tuple(Keep(tensor, slots=draw.randint(1, 3)) for tensor in tensors)
    if draw.random() < 0.3:
        kept = (Loop(rank, draw.randint(1, size)), *kept)
    tree: Tree = (Loop("p", tile), *kept, Do(name, "array", draw.choice(["ws", "os"])))
    if len(place) > 1:
        tree = (Spread(rank, -(-size // len(place)), "cores"), *tree)
    return Group(operators=(name,), tree=tree, place=place)


def _with_cores(draw: Random, on: Accelerator) -> Accelerator:
    fields = {
        "cores.count": draw.randint(2, 4),
        "cores.noc.multicast": draw.random() < 0.5,
        "dram.channels": draw.choice([1, 1, 2]),
        "compiler.overlap": draw.random() < 0.75,
        "buffer.capacity_bytes": draw.choice([512, 2048, "unlimited"]),
    }
    topology = draw.choice([None, None, "bus", "ring", "crossbar"])
    if topology is not None:
        fields |= {
            "cores.noc.topology": topology,
            "cores.noc.link_bytes_per_cycle": draw.choice([1, 3, 16]),
            "cores.noc.hop_cycles": draw.choice([0, 2]),
        }
    return with_values(on, fields, "drawn")


def with_places(draw: Random, of: Workload, on: Accelerator, one: Mapping) -> Mapping:
    """Return a mapping with places, and pieces, for most of its groups."""
    body = list(one.body)
    for at, group in enumerate(body):
        for _ in range(6 if draw.random() < 0.85 else 0):
            if not isinstance(group, Group):
                break
            body[at] = _placed(draw, of, on, group)
            if executes(on, of, replace(one, body=tuple(body))):
                break
            body[at] = group
    return replace(one, body=tuple(body))


def with_tiles_alike(draw: Random, of: Workload, on: Accelerator, one: Mapping) -> Mapping:
    """Return a mapping of which most groups go through blocks of as many rows, if that is legal.

    Of a product a group may go through blocks of columns that the next one sums over, too.
    """
    if draw.random() < 0.3:
        return one
    tile, body, apart = draw.randint(1, 4), list(one.body), draw.random() < 0.5
    outer = [Loop("m", tile)]
    if draw.random() < 0.3:
        outer.insert(draw.randint(0, 1), Loop("n", draw.randint(1, 3)))
    for at, group in enumerate(body):
        if not isinstance(group, Group) or draw.random() < 0.1:
            continue
        spreads = core_spreads(group)
        sums = draw.random() < 0.5 and "k" in space_of(of, group).sizes
        loops = [replace(loop, rank="k") if sums and loop.rank == "n" else loop for loop in outer]
        tree = (*spreads, *loops, *group.tree[len(spreads) :])
        first = at % on.cores.count
        place = range(first, first + 1) if apart and not spreads else group.place
        body[at] = replace(group, tree=tree, place=place)
        if not executes(on, of, replace(one, body=tuple(body))):
            body[at] = group
    return replace(one, body=tuple(body))


def _placed(draw: Random, of: Workload, on: Accelerator, group: Group) -> Group:
    first = draw.randrange(on.cores.count)
    place = range(first, draw.randint(first, on.cores.count - 1) + 1)
    group = replace(group, place=place)
    if draw.random() < 0.5:
        sizes = space_of(of, group).sizes
        rank = draw.choice(list(sizes))
        spread = Spread(rank, draw.randint(1, sizes[rank]), "cores")
        group = replace(group, tree=(spread, *group.tree))
    return group
