"""What no estimate of a family is below: a search leaves out whatever can't be better by this.

The array works on one block after the other. In a fork it also waits for the vector operators that
stand between two of its operators, for what it made to leave it before them and to enter it behind
(`fills`), and each of its stays there, a *phase*, is no shorter than the transfers of its own tiles
that no slot can take before or after it. Where one tile of what is between them has a single slot,
a vector operator and the array's only one take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from simaccel.analytic.family import (
    Bools,
    Cut,
    Entry,
    Family,
    Forked,
    Ints,
    Kept,
    Loops,
    Path,
    ints,
)
from simaccel.analytic.fills import Fills
from simaccel.analytic.pieces import Cuts, number
from simaccel.analytic.totals import Counts
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import BUFFER
from simaccel.mapping.view import View


@dataclass
class _Phases:
    """A unit's paths by phase, and the vector operators that it waits for between them.

    ``handed``: what each phase but the first takes from these. ``turns``: those that take turns
    with its only operator, and where they do. ``inside``: entries of a path from here on are of its
    phase alone.
    """

    paths: list[list[Path]] = field(default_factory=lambda: [[]])
    between: list[str] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)
    turns: list[tuple[str, Bools]] = field(default_factory=list)
    inside: int = 0


def least(family: Family, accelerator: Accelerator, counts: Counts) -> Ints:
    """Return what no estimate is below: the first load, phases, what is between, the last store."""
    phases = _phases(family)
    found = sum((counts.chains[name] for name in phases.between), start=ints(0))
    for name, here in phases.turns:
        found = found + here * counts.chains[name]
    for paths in phases.paths:
        found = found + _phase(family, accelerator, counts, paths, phases)
    fills = Fills(family, accelerator)
    for ((*_, before), (behind, *_)), name in zip(
        pairwise(phases.paths), phases.handed, strict=True
    ):
        found = found + fills.between(before, behind, name, phases.inside)
    return ints(found + fills.first() + fills.last())


def _phases(family: Family) -> _Phases:
    """Return the phases of the array, or of the SFU alone."""
    found, paths = _Phases(), list(family.paths())
    *outside, last = family.branch
    found.inside = len(outside) * isinstance(last, Forked)
    if len(paths) == 1:
        found.paths = [paths]
        return found
    waits: list[str] | None = None
    before = ""
    is_plain = isinstance(last, Forked) and not last.ahead and len(paths) == len(last.branches)
    for path in paths:
        seen = family.space.seen(path.leaf.operator)
        follows = before in {view.name for view in seen.inputs}
        handed, before = before, seen.output.name
        if path.leaf.unit == "sfu":
            waits = [*waits, seen.name] if waits is not None and follows else None
            continue
        if waits and follows and is_plain:
            found.between += waits
            found.handed.append(handed)
            found.paths.append([])
        found.paths[-1].append(path)
        waits = []
    if is_plain:
        found.turns = _turns(family, paths, outside)
    return found


def _turns(
    family: Family, paths: Sequence[Path], outside: Sequence[object]
) -> list[tuple[str, Bools]]:
    """Return the vector operators that share a tile with the array's only operator, and where.

    Each iteration has a tile of its own, which both use: with one slot, neither begins a next one
    before the other is done.
    """
    arrays = [path for path in paths if path.leaf.unit == "array"]
    if len(arrays) != 1 or family.space.derived or any(isinstance(one, Cut) for one in outside):
        return []
    cut = {rank for one in outside if isinstance(one, Loops) for rank in one.ranks}
    last = max((at for at, one in enumerate(outside) if not isinstance(one, Kept)), default=-1)
    shared = [one for one in outside[last + 1 :] if isinstance(one, Kept) and one.level == BUFFER]
    mine, found = _used(family, arrays[0]), []
    for path in paths:
        if path.leaf.unit != "sfu":
            continue
        seen, used = family.space.seen(path.leaf.operator), _used(family, path)
        here = np.zeros((), dtype=np.bool_)
        for keep in shared:
            if keep.tensor not in mine or keep.tensor not in used:
                continue
            view, is_read = used[keep.tensor]
            whole = not any(isinstance(one, Loops) for one in path.entries[len(outside) :])
            if cut <= view.names and (is_read or whole):
                here = here | (keep.slots == 1)
        found.append((seen.name, here))
    return found


def _used(family: Family, path: Path) -> dict[str, tuple[View, bool]]:
    """Return the tensors whose tiles an operator uses, and whether all of its passes read them."""
    *inputs, output = family.space.seen(path.leaf.operator).uses
    found = {family.aliases.get(output[0], output[0]): (output[1], False)}
    return found | {family.aliases.get(name, name): (view, True) for name, view in inputs}


def _phase(
    family: Family,
    accelerator: Accelerator,
    counts: Counts,
    paths: Sequence[Path],
    phases: _Phases,
) -> Ints:
    """Return the cycles of all stays in a phase.

    Tiles of one slot come and go while the unit doesn't work. Of others as many as have slots may
    move before a stay or behind it, the rest moves in it.
    """
    operators = {path.leaf.operator for path in paths}
    work = sum((counts.chains[name] for name in operators), start=ints(0))
    every = [path for some in phases.paths for path in some]
    shared = len({path.leaf.operator for path in every}) < len(every)
    if shared or any(path.leaf.unit != "array" for path in paths):
        return work  # tiles of several paths or passes, or with copies in PEs, are less bound
    uses = Counter(_tensor(keep) for path in every for keep in _kept(path.entries))
    all_of, single = _Service(accelerator), _Service(accelerator)
    for path in paths:
        cuts, times = Cuts(family.space, path), ints(1)
        for rank in family.space.sizes:
            times = times * number(cuts.pieces(rank, phases.inside))
        for keep in _kept(path.entries[phases.inside :]):
            kind = family.space.workload.tensors[_tensor(keep)].kind
            if uses[_tensor(keep)] > 1 or accelerator.memory(kind) != "dram":
                continue
            tile = counts.tile_bytes(BUFFER, keep.tensor)
            reads, writes = (
                ints(counts.moved.get((level, keep.tensor), 0)) - times * tile * keep.slots
                for level in ("dram_read", "dram_write")
            )
            all_of.add(reads * (keep.slots > 0), writes * (keep.slots > 0), tile)
            single.add(reads * (keep.slots == 1), writes * (keep.slots == 1), tile)
    return ints(np.maximum(work + single.alone(), all_of.cycles()))


def _kept(entries: Sequence[Entry]) -> list[Kept]:
    return [one for one in entries if isinstance(one, Kept) and one.level == BUFFER]


def _tensor(keep: Kept) -> str:
    """Return the tensor itself, of which an operator may have several uses."""
    return keep.tensor.partition("#")[0]


@dataclass
class _Service:
    """Transfers with the DRAM, one after the other."""

    accelerator: Accelerator
    read: Ints = field(default_factory=lambda: ints(0))
    written: Ints = field(default_factory=lambda: ints(0))
    loads: Ints = field(default_factory=lambda: ints(0))

    def add(self, read: Ints, written: Ints, tile_bytes: Ints) -> None:
        """Add bytes, in tiles of so many at most; less than nothing is nothing."""
        read, written = (ints(one.clip(0) * (tile_bytes > 0)) for one in (read, written))
        self.read, self.written = self.read + read, self.written + written
        self.loads = np.maximum(self.loads, -(-read // tile_bytes.clip(1)))

    def cycles(self) -> Ints:
        """Return the cycles of the channel."""
        channels = self.accelerator.dram.channels
        coming = self.accelerator.channel_read_rate.cycles(self.read // channels)
        going = self.accelerator.channel_rate.cycles(self.written // channels)
        return ints(coming + going - 1).clip(0)

    def alone(self) -> Ints:
        """Return the cycles in which nobody works, as each tile is waited for."""
        channels, latency = self.accelerator.dram.channels, self.accelerator.dram.latency_cycles
        coming = self.accelerator.channel_read_rate.cycles(self.read // channels)
        return ints(np.maximum(self.cycles(), coming + latency * self.loads))
