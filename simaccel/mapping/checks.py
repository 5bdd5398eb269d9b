"""Checks of mappings: names, sizes, and whether trees can be executed, each fault with its path."""

from __future__ import annotations

from collections.abc import Iterator

from simaccel.errors import Fault, MistakeError, require_none
from simaccel.hardware import Accelerator
from simaccel.mapping.chips.sharding import group_places, is_sharded, outer_nodes, shard
from simaccel.mapping.cores import spread_faults
from simaccel.mapping.node_text import Finding
from simaccel.mapping.places import place_faults
from simaccel.mapping.rules.resident import resident_faults
from simaccel.mapping.rules.table import RULES
from simaccel.mapping.rules.units import array_faults
from simaccel.mapping.space import space_of
from simaccel.mapping.structure import structure_faults
from simaccel.mapping.text import tree_text
from simaccel.mapping.tree import Group, Keep, Mapping, ResidentScope
from simaccel.mapping.walk import TreeWalk, walk
from simaccel.workload import Workload


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
    all_faults += _section_faults(workload, mapping, file)
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
    if workload.repeat == 1:
        return
    known = {operator.name for operator in workload.operators}
    once = [
        {
            name in workload.once
            for group in part.groups
            for name in group.operators
            if name in known
        }
        for part in mapping.body
    ]
    for at, kinds in enumerate(once):
        if len(kinds) > 1:
            allowed = "operators that all run once, or are all repeated"
            yield Fault(file, f"groups[{at}]", "both", allowed)
    repeated = [at for at, kinds in enumerate(once) if kinds == {False}]
    for at, kinds in enumerate(once):
        if kinds == {True} and repeated and repeated[0] < at < repeated[-1]:
            allowed = "a place before or after all groups that are repeated"
            yield Fault(file, f"groups[{at}]", "a group that runs once", allowed)


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
    all_faults = faults(workload, mapping, accelerator, file)
    require_none(all_faults)


class IllegalMappingError(MistakeError):
    """A search returned a mapping that can't be executed, which is a mistake of the program."""


def require_legal(workload: Workload, mapping: Mapping, accelerator: Accelerator) -> Mapping:
    """Return a mapping that a search found, once it is checked.

    Raises:
        IllegalMappingError: it can't be executed; the message has its faults and its text.

    """
    found = faults(workload, mapping, accelerator)
    if found:
        text = "; ".join(map(str, found))
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
    findings = [finding for rule in RULES for finding in rule.findings(walked)]
    if accelerator is not None:
        findings += array_faults(walked, accelerator)
    return findings, walked
