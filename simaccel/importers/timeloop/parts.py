"""The parts of a Timeloop architecture, outermost first, whichever of its formats they come in.

Three formats: versions 0.2 and 0.3 nest (`subtree`, `local`, `name: PE[0..167]`, `meshX` with the
parts), version 0.4 is a list (`nodes`) of components and of containers whose `spatial` counts for
all that follows, and before both there were `arithmetic` and `storage`, innermost first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from simaccel.errors import ABSENT, Fault
from simaccel.files.accounting import AccountEntry, split_names
from simaccel.hardware.levels import ROLES, Role

_RANGE: Final = re.compile(r"(.*)\[(\d{1,9})\.\.(\d{1,9})\]\Z")
_WHOLE: Final = re.compile(r"[0-9]{1,13}")
_PartKind = Literal["dram", "storage", "compute", "other"]
_KINDS: Final[Mapping[_PartKind, tuple[str, ...]]] = {
    "dram": ("dram",),
    "storage": ("sram", "regfile", "buffer", "storage", "buffet", "reg"),
    "compute": ("mac", "compute", "alu"),
    "other": ("",),
}
"""Kind of a part -> texts in its class, one of which it has; in this order."""
_NAMES: Final[Mapping[Role, tuple[str, ...]]] = {
    "weight": ("weight", "filter", "wgt"),
    "output": ("output", "psum", "ofmap", "accu", "oact"),
    "input": ("input", "ifmap", "iact", "activation"),
}
SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "depth": ("depth", "memory_depth", "memory-depth", "data_storage_depth"),
    "width": ("width", "memory_width", "memory-width", "data_storage_width"),
    "word_bits": ("word-bits", "word_bits", "word_width", "datawidth", "data-width"),
    "block_size": ("block-size", "block_size", "n_words"),
    "meshX": ("meshX", "mesh-x", "mesh_x"),
    "meshY": ("meshY", "mesh-y", "mesh_y"),
}
"""Attribute -> its spellings."""
SECONDS: Final = ("global_cycle_seconds", "cycle-seconds", "cycle_seconds")
"""Spellings of the attribute with a cycle's time."""
CONSTRAINTS: Final = ("architecture_constraints", "mapspace_constraints", "constraints")
"""Sections of a document that constrain the mappings of its architecture."""
LOOPS: Final = "loops are the scheduler's, and --constrain's"
"""Account text of constraints of loops."""
_NODE_KEYS: Final = split_names("""
name class subclass attributes constraints spatial tag nodes local subtree version enabled
required_actions actions area_scale energy_scale area_share energy_share
""")
"""Keys of nodes that are read, or that are of energy and area."""
MOST: Final = 2**40
"""The largest amount of an attribute."""


@dataclass(frozen=True)
class TimeloopPart:
    """A component: ``instances`` of it in all, in ``columns`` (None: unknown), with its attributes.

    ``keeps``: the roles of data that a constraint in the file lets it keep; None without one.
    """

    name: str
    path: str
    of: _PartKind
    attributes: Mapping[str, Any]
    instances: int
    columns: int | None = None
    keeps: frozenset[Role] | None = None


@dataclass
class TimeloopReading:
    """A Timeloop document that is being read, with its faults and what isn't modelled of it."""

    document: Mapping[str, Any]
    file: str
    faults: list[Fault] = field(default_factory=list)
    left: dict[str, AccountEntry] = field(default_factory=dict)
    """Path -> account entry of what isn't modelled of nodes, besides their attributes."""
    used: set[str] = field(default_factory=set)
    """Names of variables that were used in amounts."""

    @property
    def variables(self) -> Mapping[str, Any]:
        """The file's variables by name."""
        return _mapping(self.document.get("variables"))

    def refuse(self, path: str, value: object, allowed: str) -> None:
        """Add a fault."""
        text = f"this looks like a Timeloop architecture, which must have here {allowed}"
        self.faults.append(Fault(self.file, path, value, text))

    def amount(self, part: TimeloopPart, name: str) -> int | None:
        """Return an attribute of a part as an integer from 1; None without it, or if faulty."""
        for spelling in SPELLINGS.get(name, (name,)):
            if spelling in part.attributes:
                return self.whole(f"{part.path}.attributes.{spelling}", part.attributes[spelling])
        return None

    def whole(self, path: str, value: object) -> int | None:
        """Return a value, perhaps a product of variables, as an integer from 1, or add a fault."""
        if isinstance(value, str):
            self.used.update(part.strip() for part in value.split("*"))
        value = _evaluate(value, self.variables)
        if type(value) is int and 1 <= value <= MOST:
            return value
        self.refuse(path, value, "a whole number from 1")
        return None

    def parts(self) -> list[TimeloopPart]:
        """Return all parts, outermost first."""
        (root,) = (name for name in ("architecture", "arch") if name in self.document)
        described = self.document[root]
        if not isinstance(described, Mapping):
            self.refuse(root, described, "a mapping with `subtree`, `nodes`, or `arithmetic`")
            return []
        if isinstance(described.get("nodes"), list):
            return list(self._read_list(described["nodes"], _Where(f"{root}.nodes"))[0])
        if "arithmetic" in described:
            storages = [*enumerate(_list(described.get("storage")))]
            plain = [self._plain(own, f"{root}.storage[{at}]") for at, own in reversed(storages)]
            macs = self._plain(described["arithmetic"], f"{root}.arithmetic", "compute")
            return [part for part in (*plain, macs) if part is not None]
        if isinstance(described.get("subtree"), list):
            return list(self._read_nested(described, _Where(root)))
        names = ", ".join(map(str, described)) or ABSENT
        self.refuse(root, names, "`subtree`, `nodes` or `arithmetic`")
        return []

    def _read_nested(self, node: Mapping[str, Any], where: _Where) -> Iterator[TimeloopPart]:
        inside = where.enter(node)
        self._account(node)
        for at, local in enumerate(_list(node.get("local"))):
            if own_part := self._part(local, f"{where.path}.local[{at}]", inside):
                yield own_part
        branches, path = _list(node.get("subtree")), f"{where.path}.subtree"
        if len(branches) > 1:
            self.refuse(path, f"{len(branches)} branches", "one branch")
        for branch in branches[:1]:
            if isinstance(branch, Mapping):
                count = _count(branch)
                yield from self._read_nested(branch, inside.move_to(f"{path}[0]", count))
            else:
                allowed = "a mapping with `name`, `local` and `subtree`"
                self.refuse(f"{path}[0]", branch, allowed)

    def _read_list(self, nodes: list[Any], where: _Where) -> tuple[list[TimeloopPart], _Where]:
        """Return the parts of a list of nodes, and the place of what follows the list."""
        parts: list[TimeloopPart] = []
        for at, node in enumerate(nodes):
            path = f"{where.path}[{at}]"
            if not isinstance(node, Mapping):
                self.refuse(path, node, "a !Component, !Container, !Parallel or !Hierarchical")
                continue
            spread = self._spread(node, where.move_to(path, 1))
            if node.get("tag") == "Nothing":
                continue
            if "class" in node:
                part = self._part(node, path, spread)
                parts += [part] if part else []
                where = spread.move_to(where.path, 1)
            elif isinstance(node.get("nodes"), list):
                inner, after = self._read_list(node["nodes"], spread.move_to(f"{path}.nodes", 1))
                parts += inner
                where = (spread if node.get("tag") == "Parallel" else after).move_to(where.path, 1)
            else:
                where = spread.enter(node).move_to(where.path, 1)
                if "instances" in where.attributes:
                    allowed = "spatial: {meshX: ..} for the instances of a container"
                    self.refuse(f"{path}.attributes.instances", "instances", allowed)
                self._account(node)
        return parts, where

    def _spread(self, node: Mapping[str, Any], where: _Where) -> _Where:
        spatial = node.get("spatial")
        if spatial is None:
            return where
        if not isinstance(spatial, Mapping):
            self.refuse(f"{where.path}.spatial", spatial, "a mapping such as {meshX: 14}")
            return where
        mesh, path = ("meshX", "meshY"), f"{where.path}.spatial"
        for axis in [axis for axis in spatial if axis not in mesh]:
            self.refuse(f"{path}.{axis}", spatial[axis], "meshX and meshY only")
        across, down = (self.whole(f"{path}.{axis}", spatial.get(axis, 1)) or 1 for axis in mesh)
        columns = (where.columns or 1) * across
        return _Where(where.path, where.count * across * down, where.attributes, columns)

    def _plain(
        self, component: object, path: str, of: _PartKind = "storage"
    ) -> TimeloopPart | None:
        if not isinstance(component, Mapping):
            self.refuse(path, component, "a mapping")
            return None
        count = self.whole(f"{path}.instances", component.get("instances", 1)) or 1
        name = str(component.get("name", of))
        outside = "DRAM" in (component.get("technology"), component.get("class"), name)
        kind: _PartKind = "dram" if of == "storage" and outside else of
        columns = component.get("meshX") and self.whole(f"{path}.meshX", component["meshX"])
        return TimeloopPart(name, path, kind, component, count, columns)

    def _part(self, component: object, path: str, where: _Where) -> TimeloopPart | None:
        if not isinstance(component, Mapping) or not isinstance(component.get("class"), str):
            self.refuse(path, component, "a component with `name`, `class` and `attributes`")
            return None
        own = _mapping(component.get("attributes"))
        self._account(component)
        name = _RANGE.sub(r"\1", str(component.get("name", component["class"])))
        kinds = f"{component['class']} {component.get('subclass', '')}".lower()
        kind = next(of for of, texts in _KINDS.items() if any(map(kinds.count, texts)))
        named, keeps = where.count * _count(component), self._keeps(name, component)
        attributes = {**where.attributes, **own}
        part = TimeloopPart(name, path, kind, attributes, named, where.columns, keeps)
        if kind == "other":
            return part
        return self._split_mesh(replace(part, instances=self._instances(part, own)), own)

    def _instances(self, part: TimeloopPart, own: Mapping[str, Any]) -> int:
        """Return the number of instances of a part; its attribute is the total number."""
        if "instances" not in own:
            return part.instances
        path = f"{part.path}.attributes.instances"
        given = self.whole(path, own["instances"]) or 1
        if part.instances not in (1, given):
            self.refuse(path, given, f"{part.instances}, as its name or what it is in says")
        return given

    def _split_mesh(self, part: TimeloopPart, own: Mapping[str, Any]) -> TimeloopPart:
        """Return a part with its columns, from the attribute of either side of its mesh."""
        if part.columns is not None:
            return part
        across, down = self.amount(part, "meshX"), self.amount(part, "meshY")
        is_own = any(name in own for axis in ("meshX", "meshY") for name in SPELLINGS[axis])
        every = (across or 1) * (down or 1)
        if part.instances % every and (is_own or part.instances > 1):
            mesh = f"a mesh of {every}, {part.instances} of {part.name}"
            what = f"instances: {every} (or a name such as {part.name}[0..{every - 1}]) with a mesh"
            self.refuse(f"{part.path}.attributes.meshX", mesh, what)
        if across is None and down and part.instances % down == 0:
            across = part.instances // down
        return replace(part, columns=across)

    def _keeps(self, name: str, attributes: Mapping[str, Any]) -> frozenset[Role] | None:
        """Return the roles that a part's constraints let it keep; None without constraints."""
        rules = [_mapping(attributes.get("constraints")).get("dataspace")]
        for section in CONSTRAINTS:
            targets = _list(_mapping(self.document.get(section)).get("targets"))
            rules += [
                target
                for target in targets
                if isinstance(target, Mapping)
                and target.get("target", target.get("name")) == name
                and target.get("type") in ("bypass", "bypassing", "datatype", "dataspace")
            ]
        kept: frozenset[Role] | None = None
        for rule in rules:
            if isinstance(rule, Mapping):
                self._require_roles(f"{name}.dataspace", rule)
                before = frozenset(ROLES) if kept is None else kept
                bypass = roles(rule.get("bypass")) | roles(rule.get("bypass_only"))
                only = roles(rule.get("keep_only")) | (
                    frozenset() if bypass else roles(rule.get("keep"))
                )
                kept = only or before - bypass
        return kept

    def _require_roles(self, name: str, rule: Mapping[str, Any]) -> None:
        """Refuse data spaces of a constraint whose names imply no role."""
        for key in ("keep", "bypass", "keep_only", "bypass_only"):
            unknown = [str(space) for space in _list(rule.get(key)) if role_of(str(space)) is None]
            if unknown:
                why = f"{', '.join(unknown)}: neither inputs, weights nor outputs by the name"
                self.left[f"{name}.{key}"] = AccountEntry(f"{name}.{key}", "not taken", why)

    def _account(self, node: Mapping[str, Any]) -> None:
        """Record what isn't modelled of a node, besides its attributes."""
        name = str(node.get("name", node.get("class", "")))
        entries = [
            AccountEntry(f"{name}.constraints.{key}", "not taken", LOOPS)
            for key in _mapping(node.get("constraints"))
            if key != "dataspace"
        ]
        for key, value in node.items():
            if key == "sparse_optimizations" or (key == "enabled" and value is False):
                why = "sparsity is not modelled" if value else "a part that is switched off"
                entries.append(AccountEntry(f"{name}.{key}", "not taken", why, macs=None))
            elif key not in _NODE_KEYS:
                entries.append(AccountEntry(f"{name}.{key}", "not taken", "not read"))
        self.left |= {entry.name: entry for entry in entries}


@dataclass(frozen=True)
class _Where:
    """A place in the document: its path, the instances there, the attributes it inherits."""

    path: str
    count: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)
    columns: int | None = None

    def enter(self, node: Mapping[str, Any]) -> _Where:
        """Return the place inside a node, whose attributes its parts inherit."""
        found = {**self.attributes, **_mapping(node.get("attributes"))}
        return _Where(self.path, self.count, found, self.columns)

    def move_to(self, path: str, count: int) -> _Where:
        """Return the place at a path inside this one, with ``count`` times as many instances."""
        return _Where(path, self.count * count, self.attributes, self.columns)


def _evaluate(value: object, names: Mapping[str, Any]) -> object:
    """Return a value; a text that is a product of whole numbers and variables as a number.

    >>> _evaluate("16*rows", {"rows": 1024}), _evaluate("many", {})
    (16384, 'many')
    """
    if not isinstance(value, str):
        return value
    texts = [str(names.get(part.strip(), part.strip())) for part in value.split("*")]
    known = all(_WHOLE.fullmatch(text) for text in texts)
    return math.prod(map(int, texts)) if known else value


def roles(given: object) -> frozenset[Role]:
    """Return the roles of data spaces, by their names.

    >>> sorted(roles(["Inputs", "Outputs"]))
    ['input', 'output']
    """
    found = (role_of(str(one)) for one in _list(given))
    return frozenset(one for one in found if one is not None)


def role_of(name: str) -> Role | None:
    """Return the role that a name implies.

    >>> role_of("weights_spad"), role_of("psum_spad"), role_of("pe_spad")
    ('weight', 'output', None)
    """
    lower = name.lower()
    return next((role for role, words in _NAMES.items() if any(map(lower.count, words))), None)


def _count(node: Mapping[str, Any]) -> int:
    match = _RANGE.match(str(node.get("name", "")))
    return max(1, int(match[3]) - int(match[2]) + 1) if match else 1


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}


def _list(given: object) -> list[Any]:
    return given if isinstance(given, list) else []
