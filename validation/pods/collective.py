"""A collective alone on a pod, from DRAM to DRAM: its cycles on the machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import repeat

from simaccel.analytic.link_work import LinkWork
from simaccel.hardware import Accelerator
from simaccel.hardware.chips import ChipAxis, Numbering
from simaccel.hardware.collectives import Collective, CollectiveCost, LinkAxis
from simaccel.machine.machine import Machine, Run
from simaccel.mapping.chips.exchanges import Exchange
from simaccel.mapping.chips.layout import ChipLayout
from simaccel.numbers import BYTE
from simaccel.program.exchanges import lower_exchange


def collective_of(
    kind: Collective,
    n_bytes: int,
    accelerator: Accelerator,
    axis: ChipAxis | None = None,
    numbering: Numbering | None = None,
) -> Exchange:
    """Return a collective of so many bytes on the side where a chip has more; by default of all."""
    digits = (axis or ChipAxis(1, accelerator.pod.count),)
    axes = accelerator.pod.axes(digits, numbering)
    if axes is None:
        raise ValueError(f"{digits}: whole dimensions of {accelerator.pod.shape}")
    part = -(-n_bytes // digits[0].size)
    whole = part * digits[0].size
    elements = {"all_gather": (part, whole), "reduce_scatter": (whole, part)}
    layout = ChipLayout(((),))
    return Exchange(
        kind=kind,
        tensor="T",
        source="T",
        target="T.behind",
        elements=elements.get(kind, (whole, whole)),
        bits=BYTE,
        digits=digits,
        axes=axes,
        after="T",
        source_layout=layout,
        target_layout=layout,
    )


def run_collective(exchange: Exchange, accelerator: Accelerator) -> Run:
    """Run a collective alone; it is refused if machine and counts differ, or it is too fast."""
    run = Machine(accelerator, lower_exchange(exchange, accelerator)).run()
    work = LinkWork(exchange, accelerator, 1, exchange.kind)
    least = least_cycles(exchange, accelerator)
    if run.moved != work.moved or run.cycles < max(sum(work.path.values()), least):
        raise AssertionError(f"{exchange.name}: {run.moved}, not {work.moved}; {run.cycles} cycles")
    return run


def least_cycles(exchange: Exchange, accelerator: Accelerator) -> int:
    """Return the cycles that its bytes take of all links of all chips."""
    pod = accelerator.pod
    cost = pod.cost(exchange.kind, exchange.n_bytes(exchange.most), exchange.axes)
    rates = [pod.axis_rate(axis).exact() / pod.link_rate.exact() for axis in exchange.axes]
    return pod.link_rate.cycles(even_load(cost, exchange.axes, rates))


def even_load(
    cost: CollectiveCost, axes: Sequence[LinkAxis], rates: Iterable[Fraction | float] = repeat(1)
) -> int:
    """Return the least bytes over each link if the load were equal on all, by their rates."""
    pairs = zip(axes, rates, strict=False)
    links = sum(axis.links * rate for axis, rate in pairs if axis.size > 1)
    return math.ceil((cost.sent_bytes - 1) / links) if links else 0
