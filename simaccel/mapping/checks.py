"""Checks of mappings: names, sizes, and whether trees can be executed, each fault with its path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simaccel.errors import Fault, MistakeError, require_none
from simaccel.hardware import Accelerator
from simaccel.hardware.cores import CHIP, CoresSpec
from simaccel.mapping.chips.sharding import group_places, is_sharded, outer_nodes, shard
from simaccel.mapping.cores import spread_faults
from simaccel.mapping.node_text import Finding, place_text
from simaccel.mapping.rules.resident import resident_faults
from simaccel.mapping.rules.table import RULES
from simaccel.mapping.rules.units import array_faults
from simaccel.mapping.space import space_of
from simaccel.mapping.structure import structure_faults
from simaccel.mapping.text import tree_text
from simaccel.mapping.tree import Group, Keep, Mapping, ResidentScope
from simaccel.mapping.walk import TreeWalk, walk
from simaccel.workload import Workload
from simaccel.workload.shared import most_shared_bytes


def faults(
    workload: Workload,
    mapping: Mapping,
    accelerator: Accelerator | None = None,
    file: str = "mapping",
) -> list[Fault]:
    """Return all faults of a mapping, each with its path (``groups[1].tree[4]``).

    With an accelerator: also what its array can't do. Tiles that don't fit its memories are refused
    later, when the program is known. Paths count each keep as a node, also several on one line.
    """
    if is_sharded(mapping):
        return _pod_faults(workload, mapping, accelerator, file)
    all_faults: list[Fault] = []
    places = iter(group_places(mapping))
    for at, part in enumerate(mapping.body):
        walks: list[TreeWalk | None] = []
        for group, where in zip(part.groups, places, strict=False):
            findings, walked = _group_faults(workload, group, part.keeps, accelerator)
            walks.append(walked)
            all_faults += [
                Fault(file, f"{where}.{field}", v, allowed) for field, v, allowed in findings
            ]
        if isinstance(part, ResidentScope):
            known = [walked for walked in walks if walked is not None]
            complete = len(known) == len(walks)
            findings = list(resident_faults(workload, part, known)) if complete else []
            all_faults += [
                Fault(file, f"groups[{at}].{field}", v, allowed) for field, v, allowed in findings
            ]
    if workload.repeat > 1:
        all_faults += _section_faults(workload, mapping, file)
    all_faults += _joined_faults(workload, mapping, file)
    cores = None if accelerator is None else accelerator.cores
    across_cores = place_faults(workload, mapping, group_places(mapping), cores)
    all_faults += [Fault(file, *finding) for finding in across_cores]
    return list(dict.fromkeys(all_faults))


def _pod_faults(
    workload: Workload, mapping: Mapping, accelerator: Accelerator | None, file: str
) -> list[Fault]:
    """Return the faults of spreads over chips; if there are none, those of one chip's mapping."""
    chips = None if accelerator is None else accelerator.pod
    n_cores = 1 if accelerator is None else accelerator.cores.count
    pod, findings = shard(workload, mapping, chips, n_cores)
    if pod is None:
        return [Fault(file, *finding) for finding in dict.fromkeys(findings)]
    outer_faults = []
    outside = [len(outer_nodes(group)) for group in mapping.groups]
    places = dict(zip(group_places(mapping), outside, strict=True))
    for fault in faults(pod.workload, pod.mapping, accelerator, file):
        place, tree, node = fault.field.partition(".tree[")
        number, bracket, rest = node.partition("]")
        at = int(number) + places.get(place, 0) if tree else 0
        where = f"{place}.tree[{at}{bracket}{rest}" if tree else fault.field
        outer_faults.append(Fault(file, where, fault.value, fault.allowed))
    return outer_faults


def _section_faults(workload: Workload, mapping: Mapping, file: str) -> Iterator[Fault]:
    """Yield groups that mix operators that run once with repeated ones, or stand among those."""
    known = workload.by_name
    groups = [[name for group in part.groups for name in group.operators] for part in mapping.body]
    once = [{name in workload.once for name in names if name in known} for names in groups]
    for at, kinds in enumerate(once):
        if len(kinds) > 1:
            allowed = "operators that all run once, or are all repeated"
            yield Fault(file, f"groups[{at}]", "both", allowed)
    repeated = [at for at, kinds in enumerate(once) if kinds == {False}]
    for at, kinds in enumerate(once):
        if kinds == {True} and repeated and repeated[0] < at < repeated[-1]:
            allowed = "a place before or after all groups that are repeated"
            yield Fault(file, f"groups[{at}]", "a group that runs once", allowed)


def _joined_faults(workload: Workload, mapping: Mapping, file: str) -> Iterator[Fault]:
    """Yield joined groups that can't be in one kernel with the group before, or have none."""
    before: object = None
    for where, group in zip(group_places(mapping), mapping.groups, strict=True):
        runs = group.place, group.chips, workload.once.isdisjoint(group.operators)
        if group.joined and runs != before:
            allowed = "only behind a group on the same cores and chips that runs as often"
            yield Fault(file, f"{where}.joined", "true", allowed)
        before = runs


def require_mapping(
    workload: Workload,
    mapping: Mapping,
    accelerator: Accelerator | None = None,
    file: str = "mapping",
) -> None:
    """Refuse a mapping that can't be executed (`faults`).

    Raises:
        InputError: all its faults.
    """
    require_none(faults(workload, mapping, accelerator, file))


class IllegalMappingError(MistakeError):
    """A search returned a mapping that can't be executed, which is a mistake of the program."""


def require_legal(workload: Workload, mapping: Mapping, accelerator: Accelerator) -> Mapping:
    """Return a mapping that a search found, once it is checked.

    Raises:
        IllegalMappingError: it can't be executed, or lacks operators; the message has its faults
            and its text.
    """
    texts = [str(fault) for fault in faults(workload, mapping, accelerator)]
    if lacking := set(workload.by_name).difference(*(group.operators for group in mapping.groups)):
        texts.append(f"no group has {', '.join(sorted(lacking))}")
    if texts:
        text = "; ".join(texts)
        raise IllegalMappingError(f"{text}; the mapping:\n{tree_text(mapping)}")
    return mapping


def _group_faults(
    workload: Workload, group: Group, around: tuple[Keep, ...], accelerator: Accelerator | None
) -> tuple[list[Finding], TreeWalk | None]:
    findings = structure_faults(workload, group)
    if findings:
        return findings, None
    space = space_of(workload, group)
    count = None if accelerator is None else accelerator.cores.count
    findings = spread_faults(group, space, count, around)
    if findings:
        return findings, None
    walked = walk(space, group, around)
    findings = [finding for rule in RULES for finding in rule(walked)]
    if accelerator is not None:
        findings += array_faults(walked, accelerator)
    return findings, walked


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
    """Yield a fault if the groups, in their order, need more than the shared buffer's bytes.

    What a step frees can be used only by later steps. Groups that may run at the same time are one
    step: those with places, and a group on all cores after them, which may begin on a core while
    they run on others.
    """
    steps: list[list[str]] = []
    is_joined = False
    for group in mapping.groups:
        if not is_joined:
            steps.append([])
        steps[-1] += group.operators
        is_joined = group.place is not None
    if {name for step in steps for name in step} != set(workload.by_name):
        return
    if workload.repeat > 1 and any(group.place is not None for group in mapping.groups):
        steps = [[name for step in steps for name in step]]
    n_bytes = most_shared_bytes(workload, steps)
    if n_bytes > most:
        allowed = f"groups that have at most {most} B in cores.shared_buffer"
        yield "groups", f"{n_bytes} B", allowed
