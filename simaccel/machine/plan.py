"""Plans: an engine's instructions with all their costs, ready to run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from simaccel.hardware import Accelerator
from simaccel.hardware.dram.tile import TileRows, rows_of_transfer
from simaccel.hardware.memory import leaves_core
from simaccel.machine.command_traffic import bytes_of_pass, bytes_of_transfer
from simaccel.machine.folds import Fold, FoldLoop, edges_of, folds_of
from simaccel.machine.instructions import Action, Amounts, Instruction
from simaccel.numbers import in_bytes
from simaccel.program.program import (
    BUFFER,
    Command,
    Compute,
    Folds,
    Load,
    Reserve,
    Sfu,
    Steps,
    Store,
    Tile,
    UnitCommand,
    transfer_of,
)
from simaccel.units import Cause

_Of = TypeVar("_Of")
_Move = Load | Store | Reserve


@dataclass
class Plan:
    """The instructions of an engine, the depth of its loops, and the trips of loops around each."""

    ops: list[Instruction] = field(default_factory=list)
    depth: int = 0
    around: list[tuple[int, ...]] = field(default_factory=list)
    uneven: list[tuple[bool, ...]] = field(default_factory=list)
    """For each of these loops, whether its first or last iteration differs from the others."""
    repeating: list[slice] = field(default_factory=list)
    """By step: the steps that an engine can execute before it returns to this one."""

    @cached_property
    def cycles(self) -> list[int]:
        """The cycles of each instruction."""
        return [op.cycles for op in self.ops]

    @cached_property
    def trips(self) -> list[int]:
        """The number of executions of each instruction."""
        counts, factor = [], [1]
        for op in self.ops:
            counts.append(factor[-1])
            if op.act is Action.LOOP:
                factor.append(factor[-1] * op.trips)
            elif op.act is Action.END:
                factor.pop()
        return counts


def make_plan(walk: Sequence[Instruction], accelerator: Accelerator) -> Plan:
    """Return the plan of a walk, with costs; a block on a systolic array becomes its folds."""
    plan = Plan()
    starts: list[int] = []

    def add(op: Instruction) -> None:
        if op.within:
            sites = [plan.ops[start].site for start in starts]
            op.depths = tuple(n for n, site in enumerate(sites) if site in op.within)
        if op.act is Action.END:
            op.target = starts.pop() + 1
            op.depth = len(starts)
        elif op.act is Action.LOOP:
            op.depth = len(starts)
            starts.append(len(plan.ops))
            plan.depth = max(plan.depth, len(starts))
        plan.ops.append(op)

    twice = {id(op) for op, times in Counter(walk).items() if times > 1}
    for step in walk:
        if step.command is None:
            add(replace(step) if id(step) in twice else step)
        else:
            for op in _ops(step, step.command, accelerator):
                add(op)
    _charge_waits(plan.ops)
    _mark_empty(plan.ops)
    plan.around += _loops_around(plan.ops, [op.trips for op in plan.ops])
    plan.uneven += _loops_around(plan.ops, _uneven(plan.ops))
    plan.repeating += _outer_loops(plan.ops)
    return plan


def find_waiters(ops: Sequence[Instruction]) -> list[Sequence[int]]:
    """Return for each waiting step the waits that it and the next command depend on."""
    waits, steps = (Action.CLAIM, Action.WAIT), (Action.LOOP, Action.RELEASE, Action.POST)
    needed_by_op: list[Sequence[int]] = [()] * len(ops)
    needed: tuple[int, ...] = ()
    for at in range(len(ops) - 1, -1, -1):
        op = ops[at]
        if op.act in waits:
            if op.tokens is not None:
                needed = (at, *needed)
            needed_by_op[at] = needed
        elif op.act not in steps:
            needed = ()
    return needed_by_op


def _loops_around(ops: Sequence[Instruction], of: Sequence[_Of]) -> list[tuple[_Of, ...]]:
    """Return an attribute of the loops around each step, and around the end of the walk."""
    found: tuple[_Of, ...] = ()
    around = []
    for op, one in zip(ops, of, strict=True):
        around.append(found)
        if op.act is Action.LOOP:
            found = (*found, one)
        elif op.act is Action.END:
            found = found[:-1]
    return [*around, found]


def _uneven(ops: Sequence[Instruction]) -> list[bool]:
    """Return for each loop, at its start, whether its iterations differ."""
    found = [False] * len(ops)
    starts: list[int] = []
    for at, op in enumerate(ops):
        if op.act is Action.LOOP:
            starts.append(at)
        elif op.act is Action.END:
            starts.pop()
        for depth in op.depths:
            found[starts[depth]] = True
    return found


def _outer_loops(ops: Sequence[Instruction]) -> list[slice]:
    """Return the outermost loop around each step, and around the end of the walk, if any."""
    found = [slice(0, 0)] * (len(ops) + 1)
    for at, op in enumerate(ops):
        if op.act is Action.END and op.depth == 0:
            found[op.target : at + 1] = [slice(op.target - 1, at + 1)] * (at + 1 - op.target)
    return found


def _charge_waits(ops: list[Instruction]) -> None:
    """Set in waits for a tile the site of the command that will use it."""
    site = 0
    for op in reversed(ops):
        if op.act is Action.COMMAND:
            site = op.site
        elif op.act in (Action.CLAIM, Action.WAIT, Action.AWAIT):
            op.site = site or op.site


def _mark_empty(ops: list[Instruction]) -> None:
    """Mark the hand-overs of slots that were only reserved."""
    empty = False
    for op in ops:
        if op.act is Action.COMMAND:
            empty = op.empty
        elif op.act is Action.POST:
            op.empty = empty


def _ops(step: Instruction, command: Command, accelerator: Accelerator) -> Iterator[Instruction]:
    if isinstance(command, Compute):
        if isinstance(command.on, Folds):
            folding = folds_of(command, command.on, accelerator)
            site, operator = step.site, step.operator
            begins, ends = edges_of(command, command.on, folding, accelerator, step.before)
            yield Instruction(Action.COMMAND, site=site, operator=operator, begins=begins)
            yield from _folds((folding.folds,), command, step, accelerator)
            yield Instruction(Action.COMMAND, site=site, operator=operator, ends=ends)
        else:
            yield _pass(step, command, command.on, accelerator)
    elif isinstance(command, Sfu):
        yield _sfu(step, command, accelerator)
    elif isinstance(command, UnitCommand):
        yield _unit(step, command, accelerator)
    else:
        yield _transfer(step, command, accelerator)


def _moves(
    step: Instruction,
    amounts: Amounts,
    accelerator: Accelerator,
    pipe_cycles: tuple[int, int] | None = None,
) -> Instruction:
    """Return an instruction that moves ``amounts``, with the cycles that pipes and ports need.

    ``pipe_cycles``: of distribution and collection, if the pipes of several arrays don't share it.
    """
    moved: Counter[str] = Counter()
    for (level, _), n_bytes in amounts:
        moved[level] += n_bytes
    distribution, collection = pipe_cycles or (
        accelerator.distribution_rate.cycles(moved["noc_distribution"]),
        accelerator.collection_rate.cycles(moved["noc_collection"]),
    )
    return Instruction(
        Action.COMMAND,
        site=step.site,
        operator=step.operator,
        read_cycles=accelerator.read_rate.cycles(moved["buffer_read"]),
        write_cycles=accelerator.write_rate.cycles(moved["buffer_write"]),
        distribution_cycles=distribution,
        collection_cycles=collection,
        amounts=amounts,
    )


def _transfer(step: Instruction, command: _Move, accelerator: Accelerator) -> Instruction:
    if isinstance(command, Reserve):
        return Instruction(Action.COMMAND, site=step.site, operator=step.operator, empty=True)
    view, tile = transfer_of(command)[0], command.tile
    backing = accelerator.backing(view.kind)
    op = _moves(step, bytes_of_transfer(command, accelerator), accelerator)
    op.tile, op.alike = tile.name if step.alike else "", step.alike
    op.memory = accelerator.memory(view.kind)
    op.dram_bytes = sum(n_bytes for (level, _), n_bytes in op.amounts if leaves_core(level))
    # without a banked DRAM, and if PEs get parts, there are none
    if op.dram_bytes and tile.place == BUFFER:
        op.dram_rows = backing.dram.rows(tile.shape, view.shape, view.bits)
    op.root = _root(op.dram_bytes, op.dram_rows, command, backing)
    costs = {
        "buffer_read": op.read_cycles,
        "buffer_write": op.write_cycles,
        "noc_distribution": op.distribution_cycles,
        "noc_collection": op.collection_cycles,
    }
    op.port = next((level for (level, _), _ in op.amounts if level in costs), "")
    op.port_cycles = costs.get(op.port, 0)
    return op


def _root(
    n_bytes: int, rows: TileRows | None, command: Load | Store, accelerator: Accelerator
) -> Cause | None:
    """Return the cause of waits for a transfer that the data bus does not limit."""
    dram, write = accelerator.dram, isinstance(command, Store)
    held = Cause.DRAM_QUEUE if accelerator.waits_for_requests and not write else None
    if rows is None:
        return held
    share = dram.channel_bytes(n_bytes, 0)
    if dram.model == "requests":
        cycles, cause = dram.request_cycles(n_bytes, rows), Cause.DRAM_QUEUE
    elif dram.bound_by_banks(share, rows_of_transfer(n_bytes, rows), write=write):
        cycles = accelerator.transfer_cycles(n_bytes, rows, write=write)
        cause = Cause.DRAM_BANKS
    else:
        return held
    rate = accelerator.channel_rate if write else accelerator.channel_read_rate
    return cause if cycles > rate.cycles(share) else held


def _pass(
    step: Instruction, command: Compute, work: Steps, accelerator: Accelerator
) -> Instruction:
    array = accelerator.spatial
    pace = array.cycles_per_mac(tile.view.element for tile in command.inputs)
    op = _moves(step, bytes_of_pass(command, work, accelerator), accelerator)
    op.cycles = array.pass_cycles(work.steps * pace)
    op.macs, op.native_macs = command.macs, command.macs * pace
    return op


def _sfu(step: Instruction, command: Sfu, accelerator: Accelerator) -> Instruction:
    sfu, sizes = accelerator.sfu, dict(zip(command.ranks, command.shape, strict=True))
    cost = sfu.choose_form(command.does, command.does.merged)
    reads = (
        (("buffer_read", tile.view.name), times * _block_bytes(tile, sizes))
        for tile, times in zip(command.inputs, cost.reads, strict=False)
    )
    out = command.out
    written = ("buffer_write", out.view.name), cost.writes * _block_bytes(out, sizes)
    op = _moves(step, (*reads, written), accelerator)
    op.cycles = sfu.cycles(cost, command.elements, command.rows)
    op.elements = cost.passes * command.elements + cost.row_passes * command.rows
    return op


def _unit(step: Instruction, command: UnitCommand, accelerator: Accelerator) -> Instruction:
    work = command.work(accelerator)
    read = ("buffer_read", command.tile.view.name), work.read_bytes
    written = ("buffer_write", command.out.view.name), work.written_bytes
    op = _moves(step, (read, written, *work.moved), accelerator)
    op.cycles, op.channels, op.latency_cycles = work.cycles, work.channels, work.lag_cycles
    return op


def _block_bytes(tile: Tile, sizes: Mapping[str, int]) -> int:
    return in_bytes(math.prod(tile.view.extent(sizes)), tile.view.bits)


def _folds(
    nodes: Sequence[Fold | FoldLoop], command: Compute, step: Instruction, accelerator: Accelerator
) -> Iterator[Instruction]:
    for node in nodes:
        if isinstance(node, Fold):
            yield _fold(node, command, step, accelerator)
        elif node.trips == 1:
            yield from _folds(node.body, command, step, accelerator)
        else:
            yield Instruction(Action.LOOP, site=step.site, trips=node.trips)
            yield from _folds(node.body, command, step, accelerator)
            yield Instruction(Action.END, site=step.site, trips=node.trips)


def _fold(fold: Fold, command: Compute, step: Instruction, accelerator: Accelerator) -> Instruction:
    a, b, out = (tile.view.name for tile in (*command.inputs, command.out))
    amounts = (
        (("buffer_read", a), fold.a_bytes),
        (("buffer_read", b), fold.b_bytes),
        (("buffer_read", out), fold.sums_bytes),
        (("buffer_write", out), fold.out_bytes),
        (("noc_distribution", a), fold.a_sent_bytes),
        (("noc_distribution", b), fold.b_sent_bytes),
        (("noc_collection", out), fold.out_bytes),
        (("accumulator_read", out), fold.held_read_bytes),
        (("accumulator_write", out), fold.held_write_bytes),
    )
    pipe_in = accelerator.array_in_rate.cycles(fold.pipe_in_bytes)
    pipe_out = accelerator.array_out_rate.cycles(fold.pipe_out_bytes)
    op = _moves(step, amounts, accelerator, (pipe_in, pipe_out))
    op.cycles, op.macs, op.native_macs = fold.cycles, fold.macs, fold.native_macs
    return op
