"""Lines on a run: several chips together, of which it simulates one, and the chip's compiler."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from simaccel.analytic.memories import resident_bytes
from simaccel.dataflows import DEPLOYED
from simaccel.hardware.chips import Numbering
from simaccel.hardware.cores import CHIP, PIPELINE, REMOTE, core_of_name, on_core
from simaccel.hardware.links import LINK_SENT
from simaccel.hardware.memory import is_dram_channel
from simaccel.importers.accelerators import is_as_shipped
from simaccel.mapping.node_text import place_text
from simaccel.report.tables import pick
from simaccel.report.units import (
    bytes_text,
    count_text,
    figure_text,
    seconds_text,
    short_share_text,
)
from simaccel.schedulers.parallel import ParallelDegrees
from simaccel.schedulers.split_ways import degrees_of_fewer_groups
from simaccel.study.experiment import ExperimentResult
from simaccel.study.figures import run_figures
from simaccel.units import ARRAY, UNITS
from simaccel.workload.language.experts import ways_of
from simaccel.workload.language.phase import phase_of
from simaccel.workload.roles import attention_operators, kind_of, operators_of

if TYPE_CHECKING:
    from collections.abc import Iterator


_COPY, _NETWORK = "copy", "network"
"""Kinds of measured rows: copies within memory, and several kernels as a whole."""
_NOUNS: Final = frozenset({"GEMM", "convolution", "attention", _NETWORK})
"""Kinds of rows whose name is a noun; those of the others are adjectives of an operator."""
_NAMED: Final = 4
_REPEATED: Final = 1.1
"""Ratio of the MACs of all chips to the workload's, from which a line reports it."""


def sent_bytes(result: ExperimentResult) -> int:
    """Return the bytes that each chip sends over its links."""
    return sum(n for (level, _), n in result.run.moved.items() if level == LINK_SENT)


def core_line(result: ExperimentResult) -> Iterator[str]:
    """Return the busy shares of the arrays of several cores, and of their DRAM."""
    cores, run = result.accelerator.cores.count, result.run
    if cores == 1:
        return
    shares = [run.engines[on_core(core, ARRAY)].busy / run.cycles for core in range(cores)]
    least, most = short_share_text(min(shares)), short_share_text(max(shares))
    span = f"busy {most}" if least == most else f"busy {least} to {most}"
    dram = max(n for name, n in run.served_cycles.items() if is_dram_channel(name))
    yield f"{cores} cores: arrays {span}, dram of all {dram / run.cycles:.1%}"


def pod_lines(result: ExperimentResult) -> Iterator[str]:
    """Return the lines on all chips: exchanges, busy shares, tokens."""
    every = result.accelerator.pod
    if every.count == 1:
        return
    used = _used_chips(result)
    chips = every if used == every.count else every.take_chips(used) or every
    sizes = chips.slice_shape
    shape = f" of {' x '.join(map(str, sizes))}" if chips.topology == "torus" else ""
    shape += f" in each of {chips.slices} slices" if chips.slices > 1 else ""
    sides = sorted({size for size in sizes if size > 1 and not chips.links.closes(size)})
    is_open = f" (sides of {' and '.join(map(str, sides))} are open)" if sides else ""
    of = f" of {every.count} chips, the others idle," if used < every.count else " chips"
    where = f"{chips.count}{of} in a {chips.topology}{shape}{is_open}".replace("a all", "an all")
    if (numbering := result.pod.numbering) in chips.numberings()[1:]:
        where += f", counted along {' then '.join(str(size) for _, size in numbering[::-1])}"
    elif blocks := list(_blocks(numbering, len(chips.shape))):
        where += f", counted in blocks of {', then '.join(blocks)}"
    if not result.pod.cuts:
        yield f"{where}: each does all of it (no spread over chips in the mapping)"
        return
    yield f"{where}, {_exchanges_text(result)}"
    yield _cuts_text(result)
    yield from _padded_lines(result)
    yield from _copies_lines(result)
    places = result.pod.places
    for place in places:
        of_place = f"{place_text(None, place)}: " if len(places) > 1 else ""
        shares = busy_shares(result, place.start)
        dram = f"dram {shares.pop('dram'):.1%}"
        parts = [f"{name} {short_share_text(share)}" for name, share in shares.items()]
        yield f"{of_place}busy: {', '.join(parts)}, {dram}"
    if phase := phase_of(result.workload):
        figures = run_figures(result)
        what = "time per token" if phase == "decode" else "time to first token"
        rate, energy = (figures[name] for name in ("tokens_per_second", "energy_per_token_pj"))
        time = seconds_text(figures["seconds"] or 0)
        yield f"{what} {time}, {rates_text(rate or 0, every.count, energy)}"


def rates_text(rate: float, chips: int, energy_per_token_pj: float | None) -> str:
    """Return tokens per second of all chips and of each, and the energy of a token."""
    energy = figure_text(energy_per_token_pj, "pJ")
    each = rate / chips
    return f"{rate:,.4g} tokens/s of all chips, {each:,.4g} of each, {energy} per token"


def _used_chips(result: ExperimentResult) -> int:
    """Return the number of chips with work."""
    return sum(map(len, result.pod.places))


def _padded_lines(result: ExperimentResult) -> Iterator[str]:
    workload = result.workload
    if (ways := ways_of(workload.parameters.get("experts", ""))) > 1:
        routers = (one for one in workload.operators if one.name.endswith("router"))
        experts = next(routers).ranks["x"]
        if experts % ways == 0:
            return
        yield (
            f"{experts} experts over {ways} groups of chips: this one holds "
            f"{-(-experts // ways)}, the most{_without_text(result, ways, experts)}"
        )


def _without_text(result: ExperimentResult, ways: int, experts: int) -> str:
    """Return how many groups of chips hold no expert, and legal degrees by which each holds one."""
    if ways <= experts:
        return ""
    without = f"; {ways - experts} groups hold none"
    cuts = [cut for cut in result.pod.cuts.values() if "x" in cut]
    tensor = max(math.prod(axis.size for axis in cut.get("f", ())) for cut in cuts)
    degrees = ParallelDegrees(tensor, result.accelerator.pod.count // (tensor * ways), ways)
    fewer = max(n for n in range(1, experts + 1) if ways % n == 0)
    legal = degrees_of_fewer_groups(result.workload, degrees, fewer)
    return f"{without} ({legal.name} has no such group)" if legal else without


def _blocks(numbering: Numbering, dimensions: int) -> Iterator[str]:
    """Yield the shapes of the blocks whose chips follow one another, the smallest first."""
    sides, counted = [1] * dimensions, set[int]()
    for number, size in reversed(numbering):
        if number in counted:
            yield " x ".join(map(str, sides))
            counted.clear()
        counted.add(number)
        sides[number] *= size


def _copies_lines(result: ExperimentResult) -> Iterator[str]:
    pod, copied = result.pod, dict[tuple[int, int], list[str]]()
    caches = {name for name, tensor in result.workload.tensors.items() if tensor.kind == "cache"}
    for name, (_, layout) in pod.layouts.items():
        chips = next((len(place) for place in pod.places if layout.first in place), 1)
        if name in caches and layout.pieces < chips:
            copied.setdefault((layout.pieces, chips), []).append(name)
    for (pieces, chips), names in copied.items():
        many = f"{', '.join(names[:_NAMED])}{', ...' * (len(names) > _NAMED)}"
        yield (
            f"caches {many}: {count_text(pieces, 'piece')} on {chips} chips, so that "
            f"{chips // pieces} chips hold each"
        )


def _exchanges_text(result: ExperimentResult) -> str:
    pod, sent = result.pod, bytes_text(sent_bytes(result))
    times: Counter[str] = Counter()
    for exchange in pod.exchanges:
        kind = "message" if exchange.is_message or not exchange.after else "collective"
        times[kind] += result.workload.times(exchange.after)
    counts = " and ".join(count_text(n, kind) for kind, n in sorted(times.items()))
    resident = resident_bytes(each.by_part for each in result.memories)
    memory = f"weights and caches of a chip {bytes_text(resident)}"
    if len(pod.places) == 1:
        return f"of which this is one: {counts or '0 collectives'}, {sent} sent by each; {memory}"
    groups = f"{len(pod.places)} groups of {count_text(len(pod.places[0]), 'chip')} at once"
    return f"{groups}, of which these are one each: {counts}, {sent} sent; {memory} at most"


_MOST_CUTS = 4
"""Most ways of cutting operators that are listed separately."""


def _cuts_text(result: ExperimentResult) -> str:
    """Return which ranks are cut in how many pieces, those of most operators first."""
    ways: Counter[str] = Counter()
    for cuts in result.pod.cuts.values():
        pieces = {rank: math.prod(axis.size for axis in axes) for rank, axes in cuts.items()}
        ways[" and ".join(f"{rank} in {n}" for rank, n in pieces.items() if n > 1)] += 1
    alike = ways.pop("", 0)
    texts = [f"{way} ({count_text(n, 'operator')})" for way, n in ways.most_common(_MOST_CUTS)]
    texts += [f"{len(ways) - _MOST_CUTS} other ways"] * (len(ways) > _MOST_CUTS)
    texts += [f"not {alike}"] * bool(alike)
    return f"cut: {', '.join(texts)}{_repeated_text(result)}"


def _repeated_text(result: ExperimentResult) -> str:
    """Return the work of all chips relative to the workload's, where some repeat the same work."""
    work, chips = result.workload, len(result.pod.places[0])
    done = needed = 0
    for name, cuts in result.pod.cuts.items():
        macs = work.times(name) * work.operator(name).macs
        done += macs * chips
        needed += macs * math.prod(axis.size for axes in cuts.values() for axis in axes)
    if done <= _REPEATED * needed:
        return ""
    return f"; some chips do the same: {done / needed:.2f} times the workload's MACs"


def busy_shares(result: ExperimentResult, chip: int = 0) -> dict[str, float]:
    """Return the shares of the cycles in which array, SFU, links and DRAM of a chip are busy."""
    run, shares = result.run, dict[str, float]()
    for name in UNITS:
        places = (on_core(chip * CHIP + core, name) for core in (0, PIPELINE, REMOTE))
        engines = (run.engines.get(place) for place in places)
        busy = [engine.busy for engine in engines if engine is not None]
        if busy:
            shares[name] = max(busy) / run.cycles
    dram = max(
        n
        for name, n in run.served_cycles.items()
        if is_dram_channel(name) and core_of_name(name) // CHIP == chip
    )
    return shares | {"dram": dram / run.cycles}


def pod_json(result: ExperimentResult) -> dict[str, Any]:
    """Return the figures of all chips as one JSON object; empty for a single chip."""
    chips = result.accelerator.pod
    if chips.count == 1:
        return {}
    figures, phase, places = run_figures(result), phase_of(result.workload), dict[str, Any]()
    if len(result.pod.places) > 1:
        places["places"] = [
            {"chips": [place[0], place[-1]], "busy": busy_shares(result, place.start)}
            for place in result.pod.places
        ]
    return {
        "chips": {
            "count": chips.count,
            **({"used": used} if (used := _used_chips(result)) < chips.count else {}),
            "collectives": [
                pick(each, "name", "kind", "tensor")
                | {"rings": [axis.size for axis in each.axes]}
                | {"times": result.workload.times(each.after)}
                for each in result.pod.exchanges
            ],
            "sent_bytes": sent_bytes(result),
            **{name: figures[name] for name in ("resident_bytes", "energy_pj")},
            **places,
            **({"tokens_per_second": figures["tokens_per_second"]} if phase else {}),
        }
    }


def start_lines(result: ExperimentResult) -> list[str]:
    """Return a line on the time a host takes to start the program, if the compiler states it."""
    cycles, seconds = result.program_start_cycles, result.accelerator.seconds
    whole = seconds_text(seconds(cycles + result.run.cycles))
    text = f"start of the program: {seconds_text(seconds(cycles))} ({cycles:,} cycles)"
    return [f"{text} of the host, once a run and beside it: {whole} in all"] if cycles else []


def measured_lines(result: ExperimentResult) -> list[str]:
    """Return the deviation from measured operators on this chip, for the kinds that a run has.

    Of dataflows that were measured, and of `deployed`. If its hardware is not that of the shipped
    chip, the line says so.
    """
    kinds, dataflow = _kinds(result), result.mapping.dataflow
    ran = [row for row in result.accelerator.compiler.measured if row.dataflow == dataflow]
    if not ran and dataflow != DEPLOYED:
        return []
    rows = [row for row in ran if row.operators in kinds]
    parts = [
        f"{count_text(row.rows, _noun(row.operators))} (median {row.median_percent:.1f}%, 90% "
        f"within {row.within_90_percent:.1f}%{row.of and f'; {row.of}'})"
        for row in rows
    ]
    lacking = sorted(kinds - {row.operators for row in rows})
    parts += [f"no {_noun(kind)}" for kind in lacking]
    where = "on this chip"
    if rows and not is_as_shipped(result.accelerator):
        where = "on the chip that this one changes"
    return [f"measured {where}: {'; '.join(parts)}"]


def _noun(kind: str) -> str:
    return kind if kind in _NOUNS else f"{kind} operator"


def _kinds(result: ExperimentResult) -> set[str]:
    workload = result.workload
    attention = attention_operators(workload)
    rows = [row.run.name for row in result.rows]
    kinds = {_NETWORK} if len(rows) > 1 else set[str]()
    for row in rows:
        names = {*operators_of(workload, row)} & workload.by_name.keys()
        if names & attention:
            kinds.add("attention")
        elif {getattr(workload.operator(name), "kind", "") for name in names} == {_COPY}:
            kinds.add(_COPY)
        elif names:
            kinds.add(kind_of(workload, row).removeprefix("fused "))
    return kinds


def dataflow_reason(result: ExperimentResult) -> str:
    """Return why a dataflow is the default, and what it leaves to the DRAM."""
    if result.mapping.dataflow == DEPLOYED:
        return " (default: the kernels of the chip's compiler; best is what the hardware could do)"
    why = "fuses attention" if result.mapping.dataflow == "flat" else "no attention to fuse"
    if len(result.mapping.groups) > 1 and not result.accelerator.compiler.resident:
        why += "; tensors between groups go through DRAM"
    return f" (default: {why})"
