"""The lower bound of a family's cycles: no run of any of its candidates is shorter.

The array executes one block after the other. Before the first its inputs arrive (*fill*), after the
last its results leave (*drain*). In a fork it also waits for the vector operators between two of
its operators (*sfu*), and for data to leave it before them and to enter it after them (*between*).
The array's stay before, between or after them is a *phase*. A phase takes at least the transfers of
its own tiles that no slot can hold before or after it, and at least the tiles of a tensor one after
the other in its slots; the excess over the array's work is *dram*. If the tile between a vector
operator and the array's only operator has a single slot, the two take turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from operator import add, or_

from simaccel.analytic.block_fills import BlockFills, is_kept
from simaccel.analytic.family import (
    FALSE,
    ONE,
    ZERO,
    Bools,
    Family,
    FamilyCut,
    FamilyLoops,
    Ints,
    TreePath,
    any_true,
    ints,
    maximum,
)
from simaccel.analytic.family_counts import FamilyCounts
from simaccel.analytic.pieces import PathCuts, piece_count
from simaccel.analytic.units import UnitCosts, channel_cycles
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Fork, Keep
from simaccel.mapping.view import TensorView
from simaccel.units import ARRAY, MAC, SFU
from simaccel.workload.names import tensor_of

Terms = Mapping[str, Ints]
"""Cycles by term; the bound is their sum."""


@dataclass
class _UnitPhases:
    """A unit's paths by phase, and the vector operators between its phases.

    ``handed``: the tensor that each phase but the first takes from these. ``turns``: operators that
    take turns with the unit's only one, with the candidates for which they do. ``inside``: entries
    of a path from here on belong to its phase alone.
    """

    paths: list[list[TreePath]] = field(default_factory=lambda: [[]])
    between: list[str] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)
    turns: list[tuple[str, Bools]] = field(default_factory=list)
    inside: int = 0


@dataclass
class _TransferSeries:
    """Bytes from and to DRAM, one transfer after the other."""

    accelerator: Accelerator
    read: Ints = ZERO
    written: Ints = ZERO
    loads: Ints = ZERO

    def add(self, read: Ints, written: Ints, tile_bytes: Ints) -> None:
        """Add bytes in tiles of at most ``tile_bytes``; negative amounts count as 0."""
        is_moved = tile_bytes > 0
        read, written = maximum(read, 0) * is_moved, maximum(written, 0) * is_moved
        self.read, self.written = self.read + read, self.written + written
        self.loads = maximum(self.loads, -(-read // maximum(tile_bytes, 1)))

    def cycles(self) -> Ints:
        """Return the cycles of the channel."""
        return channel_cycles(self.accelerator, self.read, self.written)

    def load_cycles(self) -> Ints:
        """Return the cycles of the channel for the loads."""
        channels = self.accelerator.dram.channels
        return ints(self.accelerator.channel_read_rate.cycles(self.read // channels))

    def serial_cycles(self) -> Ints:
        """Return the cycles of all transfers including the latency of each."""
        latency = self.accelerator.dram.latency_cycles
        return ints(maximum(self.cycles(), self.load_cycles() + latency * self.loads))

    def turn_cycles(self, work: Ints, slots: Ints) -> Ints:
        """Return the least cycles of a tensor's tiles in its slots, including the work on them.

        A tile is requested after the use of its predecessor in the slot, and used after its
        arrival: in each slot work, latencies and transfers follow one another, so the slot with
        most of these takes at least the mean over all slots.
        """
        latency = self.accelerator.dram.latency_cycles
        return ints(-(-(work + self.load_cycles() + latency * self.loads) // maximum(slots, 1)))


def lower_bound(fills: BlockFills, counts: FamilyCounts) -> Terms:
    """Return the lower bound of the cycles by term, with an entry per candidate.

    ``fill``: until the first command has its inputs; ``array`` (``sfu`` if it works alone): its
    blocks one after the other; ``dram``: the excess of a phase's transfers; ``sfu``: vector
    operators that the array waits for; ``between``: drains and fills around these; ``drain``: from
    the last block to its last result in memory.
    """
    family = fills.units.family
    phases = _phases(family)
    sfu = sum((counts.chains[name] for name in phases.between), start=ZERO)
    for name, is_turn in phases.turns:
        sfu = sfu + is_turn * counts.chains[name]
    work, dram, between = ZERO, ZERO, ZERO
    for paths in phases.paths:
        own, more = _phase(fills.units, counts, paths, phases)
        work, dram = work + own, dram + more
    for ((*_, before), (behind, *_)), name in zip(
        pairwise(phases.paths), phases.handed, strict=True
    ):
        between = between + fills.interval_cycles(before, behind, name, phases.inside)
    dram = maximum(dram, _outside_excess(fills.units, counts, phases) - sfu)
    alone = phases.paths[0] and phases.paths[0][0].leaf.unit == SFU
    return {
        "fill": fills.fill_cycles(),
        ARRAY: ZERO if alone else work,
        "dram": dram,
        SFU: sfu + work if alone else sfu,
        "between": between,
        "drain": fills.drain_cycles,
    }


def after_loads(fills: BlockFills, counts: FamilyCounts) -> Terms:
    """Return the cycles of loads, and of the work after the last one, by term (`lower_bound`).

    After the last load of what its unit alone uses, the unit still executes its last block. What
    other operators of a fork make of its results, one after the other, follows, then the store.
    """
    family, accelerator = fills.units.family, fills.units.accelerator
    paths = family.paths
    unit = ARRAY if any(path.leaf.unit == ARRAY for path in paths) else SFU
    own = [path for path in paths if path.leaf.unit == unit]
    behind = [path for path in paths if path.leaf.unit != unit]
    used, others = (
        {name for path in branches for name in _used_tensors(family, path)}
        for branches in (own, behind)
    )
    kept = {keep.tensor for path in paths for keep in filter(is_kept, path.entries)}
    tensors = family.space.workload.tensors
    series = _TransferSeries(accelerator)
    for name in sorted(kept & used - others):
        if accelerator.memory(tensors[tensor_of(name)].lives) == "dram":
            series.add(ints(counts.moved.get(("dram_read", name), 0)), ZERO, ONE)
    block = fills.block_cycles(own[-1]) if own else None
    if block is None:
        return {}
    latency = accelerator.dram.latency_cycles + accelerator.cores.latency_cycles(0)
    latency += accelerator.lead_latency_cycles if unit == ARRAY else 0
    fill = latency * (series.read > 0)
    return {"fill": fill, "dram": series.load_cycles(), unit: block} | _after_block(fills, own[-1])


def _after_block(fills: BlockFills, path: TreePath) -> dict[str, Ints]:
    """Return the cycles after the last block of a path until the last result is stored, by term.

    In a fork operators behind it take its results; the array's have left it before.
    """
    family = fills.units.family
    *_, last = family.paths
    if path is last:
        return {"drain": fills.drain_cycles}
    made, sfu = family.space.bound_operator(path.leaf.operator).output.name, ZERO
    behind = [each is path for each in family.paths].index(True) + 1
    for follower in family.paths[behind:]:
        block = fills.block_cycles(follower)
        op = family.space.bound_operator(follower.leaf.operator)
        if block is None or made not in {view.name for view in op.inputs}:
            return {SFU: sfu}
        made, sfu = op.output.name, sfu + block
    return {"between": fills.leaving_cycles(path), SFU: sfu, "drain": fills.drain_after(last)}


def _phases(family: Family) -> _UnitPhases:
    """Return the phases of the array, or of the SFU if there is no array work."""
    phases, paths = _UnitPhases(), family.paths
    *outside, last = family.branch
    phases.inside = len(outside) * isinstance(last, Fork)
    if len(paths) == 1 or all(path.leaf.unit == SFU for path in paths):
        phases.paths = [list(paths)]
        return phases
    waits: list[str] | None = None
    before = ""
    is_plain = isinstance(last, Fork) and not last.ahead and len(paths) == len(last.branches)
    for path in paths:
        op = family.space.bound_operator(path.leaf.operator)
        follows = before in {view.name for view in op.inputs}
        handed, before = before, op.output.name
        if path.leaf.unit == SFU:
            waits = [*waits, op.name] if waits is not None and follows else None
            continue
        if waits and follows and is_plain:
            phases.between += waits
            phases.handed.append(handed)
            phases.paths.append([])
        phases.paths[-1].append(path)
        waits = []
    if is_plain:
        phases.turns = _turns(family, paths, outside)
    return phases


def _turns(
    family: Family, paths: Sequence[TreePath], outside: Sequence[object]
) -> list[tuple[str, Bools]]:
    """Return the vector operators that share a tile with the array's only operator.

    Each with the candidates for which the two take turns.
    """
    arrays = [path for path in paths if path.leaf.unit == ARRAY]
    if len(arrays) != 1 or any(isinstance(node, FamilyCut) for node in outside):
        return []
    vectors = [path for path in paths if path.leaf.unit == SFU]
    return [(path.leaf.operator, share_slot(family, arrays[0], path)) for path in vectors]


def share_slot(family: Family, earlier: TreePath, later: TreePath) -> Bools:
    """Return where ``later`` begins an iteration around a fork after ``earlier`` ends the last one.

    Both use the iteration's tile, and it has one slot. A vector operator with loops of its own may
    begin before it has room for its output.
    """
    *outside, _ = family.branch
    if family.space.derived:
        return FALSE
    cut = {rank for node in outside if isinstance(node, FamilyLoops) for rank in node.ranks}
    last = max((at for at, node in enumerate(outside) if not isinstance(node, Keep)), default=-1)
    before, used, is_single = _used_tensors(family, earlier), _used_tensors(family, later), FALSE
    own = later.entries[len(outside) :]
    whole = later.leaf.unit == ARRAY or not any(isinstance(entry, FamilyLoops) for entry in own)
    for keep in (node for node in outside[last + 1 :] if is_kept(node)):
        if keep.tensor in before and keep.tensor in used:
            view, is_read = used[keep.tensor]
            if cut <= view.names and (is_read or whole):
                is_single = is_single | (keep.slots == 1)
    return is_single


def _used_tensors(family: Family, path: TreePath) -> dict[str, tuple[TensorView, bool]]:
    """Return the tensors whose tiles an operator uses, and whether all of its passes read them."""
    *inputs, output = family.space.bound_operator(path.leaf.operator).uses
    found = {family.aliases.get(output[0], output[0]): (output[1], False)}
    return found | {family.aliases.get(name, name): (view, True) for name, view in inputs}


def _phase(
    units: UnitCosts, counts: FamilyCounts, paths: Sequence[TreePath], phases: _UnitPhases
) -> tuple[Ints, Ints]:
    """Return the cycles of all executions of a phase: its blocks, and the excess of transfers.

    Tiles with one slot move while the unit is idle. Of other tiles as many as there are slots may
    move before or after the phase; the rest moves during it.
    """
    family, accelerator = units.family, units.accelerator
    operators = {path.leaf.operator for path in paths}
    work = sum((counts.chains[name] for name in operators), start=ZERO)
    every = [path for of_phase in phases.paths for path in of_phase]
    together = len({path.leaf.operator for path in every})
    if 1 < together < len(every) or any(path.leaf.unit == MAC for path in paths):
        return work, ZERO  # of several paths or passes, or with copies in PEs, tiles wait less
    all_of, single, in_turn = _TransferSeries(accelerator), _TransferSeries(accelerator), ZERO
    for name, slots, times in _tiles(units, paths, every, phases.inside):
        kind = family.space.workload.tensors[tensor_of(name)].lives
        if accelerator.memory(kind) != "dram":
            continue
        tile, _ = counts.largest_tile(name)
        made = [out for out, source in family.aliases.items() if source == name]
        reads, writes = (
            sum((ints(counts.moved.get((level, tensor), 0)) for tensor in names), start=ZERO)
            - times * tile * slots
            for level, names in (("dram_read", [name]), ("dram_write", [name, *made]))
        )
        if not any_true((reads > 0) | (writes > 0)):
            continue
        all_of.add(reads * (slots > 0), writes * (slots > 0), tile)
        single.add(reads * (slots == 1), writes * (slots == 1), tile)
        of_tensor = _TransferSeries(accelerator)
        of_tensor.add(reads * (slots > 0), ZERO, tile)
        turns = of_tensor.turn_cycles(work * (len(paths) == 1), slots) * (of_tensor.loads > 0)
        in_turn = maximum(in_turn, turns)
    beyond = maximum(all_of.cycles(), in_turn) - work
    return work, ints(maximum(single.serial_cycles(), beyond))


def _outside_excess(units: UnitCosts, counts: FamilyCounts, phases: _UnitPhases) -> Ints:
    """Return the array's least wait for tiles that are kept around a fork; 0 if it isn't known.

    Its only operator can't begin on a tile before that has come to a slot, nor does a tile come
    before the use of its predecessor in the slot. Meanwhile vector operators may take their turns.
    """
    family, accelerator = units.family, units.accelerator
    array = [path for path in family.paths if path.leaf.unit == ARRAY]
    if len(array) != 1 or phases.paths != [array]:
        return ZERO
    outside, operator = array[0].entries[: phases.inside], array[0].leaf.operator
    if any(isinstance(entry, FamilyCut) for entry in outside):
        return ZERO
    read, work = family.space.bound_operator(operator).names, counts.chains[operator]
    uses = Counter(keep.tensor for path in family.paths for keep in filter(is_kept, path.entries))
    views = Counter(map(tensor_of, uses))
    single, in_turn = _TransferSeries(accelerator), ZERO
    for keep in filter(is_kept, outside):
        lives = family.space.workload.tensors[tensor_of(keep.tensor)].lives
        # no branch keeps it once more, and no other part of the tensor, whose bytes count with it
        is_alone = uses[keep.tensor] == len(family.paths) and views[keep.tensor] == 1
        if keep.tensor not in read or not is_alone or accelerator.memory(lives) != "dram":
            continue
        tile, _ = counts.largest_tile(keep.tensor)
        reads = ints(counts.moved.get(("dram_read", keep.tensor), 0)) - tile * keep.slots
        if not any_true(reads > 0):
            continue
        single.add(reads * (keep.slots == 1), ZERO, tile)
        series = _TransferSeries(accelerator)
        series.add(reads, ZERO, tile)
        in_turn = maximum(in_turn, series.turn_cycles(work, keep.slots) * (series.loads > 0))
    return ints(maximum(single.serial_cycles(), in_turn - work))


def _tiles(
    units: UnitCosts, paths: Sequence[TreePath], every: Sequence[TreePath], inside: int
) -> Iterator[tuple[str, Ints, Ints]]:
    """Yield the tiles of a phase alone, as (name, most slots of all parts, number of executions).

    A vector operator whose axis is cut passes over its rows twice, with slots of its own each time,
    and the first tiles of one pass may be loaded during the other.
    """
    if not any(is_kept(entry) for path in paths for entry in path.entries[inside:]):
        return
    is_one = len({path.leaf.operator for path in every}) == 1
    kept = (map(tensor_of, (k.tensor for k in filter(is_kept, path.entries))) for path in every)
    uses = reduce(or_ if is_one else add, map(Counter, kept))
    by_tensor: dict[str, tuple[Ints, Ints, Ints]] = {}
    for path in paths:
        cuts, times = units.cuts(path), ONE
        for rank in units.family.space.sizes:
            times = times * piece_count(cuts.pieces(rank, inside))
        for at, keep in enumerate(path.entries[inside:], inside):
            if not is_kept(keep) or uses[tensor_of(keep.tensor)] != 1:
                continue
            slots, _, passes = by_tensor.get(keep.tensor, (ZERO, times, ZERO))
            passes = passes + _passes(units.family, path, cuts, at, times)
            by_tensor[keep.tensor] = maximum(slots, keep.slots), times, passes
    for name, (slots, times, passes) in by_tensor.items():
        yield name, slots, maximum(times, passes)


def _passes(family: Family, path: TreePath, cuts: PathCuts, at: int, times: Ints) -> Ints:
    """Return the most passes that a vector operator begins if its axis is cut before ``at``.

    0 if it is not.
    """
    axis = family.space.cut_axis(path.leaf.operator)
    if axis is None:
        return ZERO
    blocks = ONE
    for rank in family.space.sizes:
        blocks = blocks * (piece_count(cuts.pieces(rank, at)) if rank != axis else 1)
    return ints((piece_count(cuts.pieces(axis, at)) > 1) * 2 * maximum(blocks, times))
