"""Small random workloads with random trees, drawn from a seed; illegal ones are drawn again."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from simaccel.hardware import STATIONARITIES, Accelerator, SpatialArraySpec
from simaccel.hardware.load import with_values
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import faults
from simaccel.mapping.space import BoundOperator, IterationSpace, mergeable, space_of
from simaccel.mapping.tree import (
    FANS,
    PE,
    Do,
    Fork,
    Group,
    Keep,
    Loop,
    Mapping,
    Node,
    Part,
    ResidentScope,
    Spread,
    Tree,
    WorkloadReference,
)
from simaccel.mapping.walk import walk
from simaccel.program.lowering import lower
from simaccel.program.program import ProgramError
from simaccel.workload import Einsum, Operator, Vector, Workload
from simaccel.workload.shared import in_shared_buffer
from tests.machine.accelerators import accelerator, gigabytes
from tests.trees import einsum, vector, workload

Random = random.Random
_TRIES = 400
_LIMITS = ("tiles need", "passes between engines", "by different engines in different bodies")
"""What the machine refuses of legal trees."""


@dataclass(frozen=True)
class Drawn:
    """A workload, an accelerator, and a legal mapping."""

    of: Workload
    on: Accelerator
    mapping: Mapping


def draw_workload(draw: Random) -> Workload:
    """Draw one of the small workloads, with sizes of 1 to 7."""

    def n() -> int:
        return draw.choice([1, 2, 3, 4, 5, 7])

    a, b, c, d, e = n(), n(), n(), n(), n()
    choices: list[Callable[[], list[Operator]]] = [
        lambda: [einsum("E", "C b m n", "A b m k", "B b k n", b=a, m=b, k=c, n=d)],
        lambda: [einsum("E", "C m n", "A m k", "A n k", m=a, n=a, k=c)],
        lambda: [einsum("E", "C m n", "A m k", "B k n", "s k", m=a, k=b, n=c)],
        lambda: [
            einsum("E", "O m p", "I c 2*p+r", "W m c r", m=a, c=b, p=c, r=draw.choice([1, 3]))
        ],
        lambda: [
            einsum("L", "S g r q c", "Q g r q d", "K g c d", g=a, r=2, q=b, c=c, d=d),
            vector("softmax", "softmax", "P g r q c", "S g r q c", axis="c", g=a, r=2, q=b, c=c),
            einsum("A", "Z g r q d", "P g r q c", "V g c d", g=a, r=2, q=b, c=c, d=d),
        ],
        lambda: [
            einsum("F", "H r f", "X r e", "W e f", r=a, e=b, f=c),
            vector("act", "relu", "G r f", "H r f", r=a, f=c),
            einsum("G", "Y r o", "G r f", "U f o", r=a, f=c, o=d),
        ],
        lambda: [
            vector("norm", "rms_norm", "N r e", "X r e", "g e", axis="e", r=a, e=b),
            einsum("F", "H r f", "N r e", "W e f", r=a, e=b, f=c),
            vector("add", "residual", "Y r f", "H r f", "R r f", r=a, f=c),
        ],
        lambda: [
            einsum("one", "T m p", "I c p+r", "W m c r", m=a, c=b, p=c + 2, r=2),
            einsum("two", "O n p", "T m p+r", "U n m r", n=d, m=a, p=c, r=3),
        ],
        lambda: [
            einsum("one", "T m k", "A m e", "B e k", m=a, e=e, k=b),
            einsum("two", "O m n", "T m k", "D k n", m=a, k=b, n=c),
            einsum("three", "V m n", "T m k", "F k n", m=a, k=b, n=d),
        ],
    ]
    operators = draw.choice(choices)()
    names = {one.output.tensor for one in operators}
    names |= {given.tensor for one in operators for given in one.inputs}
    apart = random.Random()  # noqa: S311 - what follows is drawn as if all were whole bytes
    apart.setstate(draw.getstate())
    widths = {name: draw.choice([1, 2, 4]) for name in sorted(names)}
    bits = {name: 4 if apart.random() < 0.4 else 8 * n for name, n in widths.items()}
    weights = [name for name in sorted(names) if draw.random() < 0.3]
    return workload(*operators, bits=bits, repeat=draw.choice([1, 1, 2]), weights=weights)


def draw_accelerator(draw: Random, *, spatial: bool) -> Accelerator:
    """Draw a small array, with slow or fast ways to it."""

    def rate() -> str:
        return gigabytes(draw.choice([1, 3, 8, None]))

    def pipe() -> dict[str, object]:
        slow = {"topology": "tree", "link_bytes_per_cycle": draw.randint(1, 4), "hop_cycles": 1}
        return draw.choice([slow, {"topology": "unlimited"}])

    array: dict[str, object] = {
        "rows": draw.randint(1, 4),
        "cols": draw.randint(1, 4),
        "overlap": draw.choice(["none", "preload", "stream"]),
        "edge_folds": draw.choice(["full", "used"]),
    }
    apart = random.Random()  # noqa: S311 - what follows is drawn as if all MACs took a cycle
    apart.setstate(draw.getstate())
    native = {"native_bits": bits} if (bits := apart.choice([None, None, 4, 8, 12])) else {}
    array |= native | {"count": apart.choice([1, 1, 1, 2, 3, 4])}
    array["diagonal"] = apart.choice([False, False, True])
    if draw.random() < 0.5:  # sums grow beside the array
        width = draw.choice([1, 2, 4, 5])
        array["accumulator"] = {"bytes_per_element": width, "capacity_bytes": "unlimited"}
    on = accelerator(
        array=array,
        buffer={"read_bytes_per_second": rate(), "write_bytes_per_second": rate()},
        noc={"distribution": {**pipe(), "multicast": draw.random() < 0.7}, "collection": pipe()},
        sfu={
            "lanes": draw.randint(1, 4),
            "passes": draw.choice([2, 3]),
            "latency_cycles": 3,
            "operations": {
                name: apart.choice([1, 1, 3]) for name in ("exp", "rsqrt", "divide", "reduce")
            },
        },
        dram={
            "bandwidth_bytes_per_second": rate(),
            "latency_cycles": draw.choice([0, 7, 40]),
            "in_flight_bytes": draw.choice([8, 64, None]) or "unlimited",
        },
        dma={"in_queues": draw.choice(["per_tensor", "single"])},
        memories=_draw_memories(draw),
    )
    if not spatial:
        return on
    memory = {"capacity_bytes": "unlimited", "read_pj_per_byte": 1.0, "write_pj_per_byte": 1.0}
    sides = {
        "rows": draw.randint(1, 4),
        "cols": draw.randint(1, 4),
        "vectors": draw.choice([1, 2]),
        "lanes": draw.choice([1, 3]),
    }
    raw = on.model_dump()
    raw["array"] = {
        "kind": "spatial",
        **sides,
        "memories": {"shared": memory},
        "reduces": [fan for fan in FANS if draw.random() < 0.8],
        **native,
    }
    return Accelerator.model_validate(raw)


def _draw_memories(draw: Random) -> dict[str, object]:
    """Draw a memory for weights, now and then."""
    if draw.random() < 0.5:
        return {}
    weight: dict[str, object] = {
        "bandwidth_bytes_per_second": gigabytes(draw.choice([1, 2, 5, None])),
        "latency_cycles": draw.choice([0, 3, 30]),
        "channels": draw.choice([1, 2]),
        "in_flight_bytes": draw.choice([8, None]) or "unlimited",
    }
    return {"weight": weight}


def draw_case(seed: int, *, spatial: bool) -> Drawn:
    """Draw a case: other workloads and accelerators until a tree is legal."""
    draw = Random(seed)
    return next(filter(None, (_case(draw, spatial=spatial) for _ in range(_TRIES))))


def _case(draw: Random, *, spatial: bool) -> Drawn | None:
    of, on = draw_workload(draw), draw_accelerator(draw, spatial=spatial)
    for _ in range(_TRIES):
        one = draw_mapping(draw, of, on)
        if not (faults(of, one, on) or _is_merged(of, one) or _is_refused(of, one, on)):
            return Drawn(of, on, one)
    return None


def over_cores(seed: int, case: Drawn) -> Drawn:
    """Draw cores, perhaps with a buffer that they share, and spread groups over them."""
    draw = Random(f"cores {seed}")
    fields = {"cores.count": draw.randint(1, 4), "cores.noc.multicast": draw.random() < 0.5}
    case = _sharing(draw, case)
    on = with_values(case.on, fields | draw_core_noc(seed), "drawn")
    body = list(case.mapping.body)
    for at, group in enumerate(body):
        for _ in range(draw.choice([0, 4, 4])):
            if not isinstance(group, Group):
                break
            sizes = space_of(case.of, group).sizes
            ranks = draw.sample(list(sizes), k=min(len(sizes), draw.choice([1, 1, 2])))
            spreads = [Spread(rank, draw.randint(1, sizes[rank]), "cores") for rank in ranks]
            before, body[at] = group, replace(group, tree=(*spreads, *group.tree))
            one = replace(case.mapping, body=tuple(body))
            if not faults(case.of, one, on) and not _is_refused(case.of, one, on):
                break
            body[at] = before
    return Drawn(case.of, on, replace(case.mapping, body=tuple(body)))


def draw_core_noc(seed: int) -> dict[str, object]:
    """Draw fields of links between memories and cores, for two machines of three."""
    draw = Random(f"links {seed}")
    topology = draw.choice([None, None, "bus", "crossbar", "ring", "mesh"])
    if topology is None:
        return {}
    return {
        "cores.noc.topology": topology,
        "cores.noc.link_bytes_per_cycle": draw.choice([1, 3, 16]),
        "cores.noc.hop_cycles": draw.choice([0, 1, 20]),
        "cores.noc.pj_per_bit_hop": draw.choice([0.1, 1]),
    }


def _sharing(draw: Random, case: Drawn) -> Drawn:
    """Draw a buffer that cores share, where all that lies in it fits."""
    if draw.random() < 0.5:
        return case
    capacity = draw.choice([64, 1024, 2**20])
    fields = {
        "cores.shared_buffer.capacity_bytes": capacity,
        "cores.shared_buffer.bandwidth_bytes_per_second": draw.choice(["1 GB/s", "7 GB/s"]),
        "cores.shared_buffer.latency_cycles": draw.choice([0, 9]),
    }
    on = with_values(case.on, fields, "drawn")
    of = in_shared_buffer(case.of, capacity)
    return case if faults(of, case.mapping, on) else Drawn(of, on, case.mapping)


def _is_refused(of: Workload, one: Mapping, on: Accelerator) -> bool:
    """Say whether a legal mapping is beyond the machine's limits."""
    try:
        Machine(on, lower(of, one))
    except ProgramError as error:
        if not any(known in str(error) for known in _LIMITS):
            raise
        return True
    return False


def draw_held(seed: int, *, spatial: bool) -> Drawn:
    """Draw a case of several groups with tensors that stay on chip from one to the next."""
    draw = Random(seed)
    return next(filter(None, (_held(draw, spatial=spatial) for _ in range(_TRIES))))


def _held(draw: Random, *, spatial: bool) -> Drawn | None:
    of, on = draw_workload(draw), draw_accelerator(draw, spatial=spatial)
    made = [one.output.tensor for one in of.operators[:-1]]
    for _ in range(_TRIES // 10 if made else 0):
        one = draw_mapping(draw, of, on, most=1)
        names = [name for name in made if draw.random() < 0.6]
        groups = tuple(
            replace(group, tree=_without(group.tree, names)) if draw.random() < 0.9 else group
            for group in one.groups
        )
        keeps = tuple(Keep(name, slots=draw.choice([1, 1, 2])) for name in names)
        one = replace(one, body=(ResidentScope(keeps=keeps, groups=groups),))
        legal = names and not faults(of, one, on) and not _is_merged(of, one)
        if legal and not _is_refused(of, one, on):
            return Drawn(of, on, one)
    return None


def _without(tree: Tree, names: Sequence[str]) -> Tree:
    """Return a tree without the keeps of some tensors."""
    found: list[Node] = []
    for node in tree:
        if isinstance(node, Fork | Part):
            branches = tuple(_without(one, names) for one in node.branches)
            found.append(replace(node, branches=branches))
        elif not isinstance(node, Keep) or node.tensor not in names:
            found.append(node)
    return tuple(found)


def _is_merged(of: Workload, one: Mapping) -> bool:
    """Say whether keeps in several branches are one tile, as no loop inside moves it."""
    for group, around in one.groups_with_keeps():
        walked = walk(space_of(of, group), group, around)
        for first, second in combinations(walked.sites, 2):
            at = first.shared_steps(second)
            for use, view in walked.bound_leaf(first).uses:
                name = walked.root(use)
                keeps = [next(site.keeps(name), -1) for site in (first, second)]
                home = walked.home(first, name, view)
                if min(keeps) >= at and home is not None and home < at:
                    return True
    return False


def draw_mapping(draw: Random, of: Workload, on: Accelerator, most: int | None = None) -> Mapping:
    """Draw a mapping, of so many operators in a group at most."""
    names = [one.name for one in of.operators]
    body, start = [], 0
    while start < len(names):
        stop = draw.choice([len(names), len(names), draw.randint(start + 1, len(names))])
        stop = min(stop, start + (most or stop))
        body.append(_group(draw, of, on, tuple(names[start:stop])))
        start = stop
    reference = WorkloadReference(of.name, of.fingerprint)
    return Mapping(workload=reference, dataflow="drawn", body=tuple(body))


def _group(draw: Random, of: Workload, on: Accelerator, names: tuple[str, ...]) -> Group:
    merged = mergeable(of, names) if draw.random() < 0.3 else {}
    group = Group(operators=names, tree=(), merged=merged)
    space = space_of(of, group)
    return Group(operators=names, tree=_Drawing(draw, space, on).tree(), merged=merged)


@dataclass
class _Drawing:
    draw: Random
    space: IterationSpace
    on: Accelerator

    def tree(self) -> Tree:
        """Draw a tree: shared loops with keeps between, then a branch for each operator."""
        ranks = list(self.space.sizes)
        if self.draw.random() < 0.15:
            rank = self.draw.choice(ranks)
            if self.space.sizes[rank] > 1:
                size = self.draw.randint(1, self.space.sizes[rank] - 1)
                return (Part(rank, (size,), (self._whole(), self._whole())),)
        return self._whole()

    def _whole(self) -> Tree:
        operators = self.space.operators
        shared, rest = [], set()
        for one in operators:
            for use in dict.fromkeys(use for use, _ in one.uses):
                users = [other for other in operators if use in dict(other.uses)]
                inner = use in self.space.made and use in self.space.read
                if len(users) > 1 or inner or self.draw.random() < 0.5:
                    shared.append((one, use))
                else:
                    rest.add(use)
        every = list(self.space.sizes)
        if len(operators) == 1:
            return self._single(operators[0])
        keeps = list(dict.fromkeys(use for one, use in shared if self._is_kept(one, use)))
        outside = self._mixed(self._loops(every, 0.5), keeps)
        branches = tuple(self._branch(one, rest) for one in operators)
        ahead = self.draw.choice([0, 0, 0, 1]) if len(branches) > 1 else 0
        return (*outside, Fork(branches, ahead))

    def _is_kept(self, one: BoundOperator, use: str) -> bool:
        """Say whether a tensor is to be kept; what vector operators make mostly is in place."""
        maker = self.space.made.get(use)
        in_place = maker is not None and isinstance(
            self.space.bound_operator(maker).operator, Vector
        )
        del one
        return not in_place or self.draw.random() < 0.3

    def _branch(self, one: BoundOperator, rest: set[str]) -> Tree:
        mine = [
            use
            for use in dict.fromkeys(use for use, _ in one.uses)
            if use in rest and self._is_kept(one, use)
        ]
        if isinstance(one.operator, Einsum) and isinstance(self.on.array, SpatialArraySpec):
            return self._pes(one, mine)
        return (*self._mixed(self._loops(self._ranks(one), 0.3), mine), self._do(one))

    def _single(self, one: BoundOperator) -> Tree:
        uses = [use for use in dict.fromkeys(use for use, _ in one.uses) if self._is_kept(one, use)]
        if isinstance(one.operator, Einsum) and isinstance(self.on.array, SpatialArraySpec):
            return self._pes(one, [use for use in uses if self.draw.random() < 0.7])
        return (*self._mixed(self._loops(self._ranks(one), 0.6), uses), self._do(one))

    def _ranks(self, one: BoundOperator) -> list[str]:
        found: dict[str, None] = {}
        for rank in one.ranks:
            found |= dict.fromkeys(r for r, _ in self.space.derived.get(rank, ((rank, 1),)))
        return list(found)

    def _loops(self, ranks: Sequence[str], share: float) -> list[Loop]:
        some = [rank for rank in ranks if self.draw.random() < share]
        some += [rank for rank in some if self.draw.random() < 0.1]
        self.draw.shuffle(some)
        return [Loop(rank, self.draw.randint(1, self.space.sizes[rank])) for rank in some]

    def _mixed(self, loops: Sequence[Node], keeps: Sequence[str]) -> list[Node]:
        found = list(loops)
        for use in keeps:
            at = self.draw.randint(0, len(found))
            found.insert(at, Keep(use, slots=self.draw.choice([1, 2, 2, 3])))
        return found

    def _pes(self, one: BoundOperator, keeps: Sequence[str]) -> Tree:
        ranks = self._ranks(one)
        outside = self._mixed(self._loops(ranks, 0.5), keeps)
        sides = [*self._spreads(ranks, "rows"), *self._spreads(ranks, "cols")]
        inside: list[Node] = [
            Keep(use, PE, self.draw.choice([1, 2]))
            for use in dict.fromkeys(use for use, _ in one.uses)
            if self.draw.random() < 0.6
        ]
        if sides:
            inside += self._loops(ranks, 0.4)
        lanes = [*self._spreads(ranks, "vectors"), *self._spreads(ranks, "lanes")]
        return (*outside, *sides, *inside, *lanes, self._do(one))

    def _spreads(self, ranks: Sequence[str], level: str) -> Iterator[Spread]:
        most = getattr(self.on.array, level)
        if most == 1 or self.draw.random() < 0.4:
            return
        rank = self.draw.choice(ranks)
        fan = next(one for one in FANS if one == level)
        yield Spread(rank, self.draw.randint(1, self.space.sizes[rank]), fan)

    def _do(self, one: BoundOperator) -> Do:
        if isinstance(one.operator, Vector):
            return Do(one.name, "sfu")
        if isinstance(self.on.array, SpatialArraySpec):
            return Do(one.name, "mac")
        diagonal = self.on.systolic.diagonal
        return Do(one.name, "array", self.draw.choice(STATIONARITIES), diagonal=diagonal)
