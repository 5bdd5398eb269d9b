"""Checks of mappings: names, sizes, and trees that can't be executed, each fault with its place."""

from __future__ import annotations

from collections.abc import Iterator

from simaccel.errors import Fault, InputError, MistakeError
from simaccel.hardware import Accelerator
from simaccel.mapping.chips.sharding import group_places, is_sharded, outer_nodes, shard
from simaccel.mapping.cores import spread_faults
from simaccel.mapping.places import crossings
from simaccel.mapping.rules.resident import resident_faults
from simaccel.mapping.rules.table import RULES
from simaccel.mapping.rules.units import array_faults
from simaccel.mapping.space import space_of
from simaccel.mapping.structure import Finding, structure
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
    """Return all that is wrong with a mapping, with the place of each (``groups[1].tree[4]``).

    With an accelerator: also what its array can't do. Tiles that don't fit its memories are refused
    later, when the program is known. A place counts nodes, each keep separately.
    """
    if is_sharded(mapping):
        return _check_chips(workload, mapping, accelerator, file)
    all_faults: list[Fault] = []
    for at, part in enumerate(mapping.body):
        place = f"groups[{at}]"
        pairs = (
            [(place, part, ())]
            if isinstance(part, Group)
            else [
                (f"{place}.groups[{n}]", group, part.keeps) for n, group in enumerate(part.groups)
            ]
        )
        walks: list[TreeWalk | None] = []
        for where, group, around in pairs:
            findings, walked = _group(workload, group, around, accelerator)
            walks.append(walked)
            all_faults += [
                Fault(file, f"{where}.{field}", v, allowed) for field, v, allowed in findings
            ]
        if isinstance(part, ResidentScope):
            known = [walked for walked in walks if walked is not None]
            complete = len(known) == len(walks)
            findings = list(resident_faults(workload, part, known)) if complete else []
            all_faults += [
                Fault(file, f"{place}.{field}", v, allowed) for field, v, allowed in findings
            ]
    all_faults += _sections(workload, mapping, file)
    cores = None if accelerator is None else accelerator.cores
    across_cores = crossings(workload, mapping, group_places(mapping), cores)
    all_faults += [Fault(file, *finding) for finding in across_cores]
    return list(dict.fromkeys(all_faults))


def _check_chips(
    workload: Workload, mapping: Mapping, accelerator: Accelerator | None, file: str
) -> list[Fault]:
    """Return the faults of spreads over chips; or, without any, those of one chip's part."""
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


def _sections(workload: Workload, mapping: Mapping, file: str) -> Iterator[Fault]:
    """Yield groups that run once but are placed between repeated ones."""
    if workload.repeat == 1:
        return
    known = {operator.name for operator in workload.operators}
    once = [
        {
            name in workload.once
            for group in _groups(part)
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


def _groups(one: Group | ResidentScope) -> tuple[Group, ...]:
    return (one,) if isinstance(one, Group) else one.groups


def require_mapping(
    workload: Workload,
    mapping: Mapping,
    accelerator: Accelerator | None = None,
    file: str = "mapping",
) -> None:
    """Refuse a mapping that can't be executed.

    Raises:
        InputError: all its faults.

    """
    all_faults = faults(workload, mapping, accelerator, file)
    if all_faults:
        raise InputError(all_faults)


class IllegalMappingError(MistakeError):
    """A search returned a mapping that computes something else; the message has the mapping."""


def require_legal(workload: Workload, mapping: Mapping, accelerator: Accelerator) -> Mapping:
    """Return a search's mapping, if it can be executed.

    Raises:
        IllegalMappingError: it can't; the message has its faults and the mapping.

    """
    found = faults(workload, mapping, accelerator)
    if found:
        text = "; ".join(map(str, found))
        raise IllegalMappingError(f"{text}; the mapping:\n{tree_text(mapping)}")
    return mapping


def _group(
    workload: Workload, group: Group, around: tuple[Keep, ...], accelerator: Accelerator | None
) -> tuple[list[Finding], TreeWalk | None]:
    findings = structure(workload, group)
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
