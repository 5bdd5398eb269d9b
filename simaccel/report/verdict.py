"""The verdict on the stalls of an operator, in one to three sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from simaccel.diagnosis.stalls import TOTAL, OperatorDiagnosis
from simaccel.diagnosis.verdict import (
    BOUND,
    WORTH_SAYING,
    BandwidthUse,
    VerdictFigures,
    is_bound,
    use_of,
    worst_causes,
)
from simaccel.diagnosis.what_if import WORTH_A_CHANGE
from simaccel.hardware import SpatialArraySpec
from simaccel.hardware.cores import CHIP, CORE_NOC, PIPELINE, core_of_name, without_core
from simaccel.report.units import bytes_text, rate_text, short_share_text
from simaccel.units import ARRAY, FREED, LINK, SFU, UNITS
from simaccel.workload.names import is_sums

_SATURATED = 0.85
"""Share of busy cycles from which a channel counts as saturated."""
_FULL_PES = 0.75
"""Share of busy PEs below which a verdict mentions them."""
_ONE_WAY = 0.95
"""Share of DRAM bytes in one direction from which only that direction is named."""
_MOSTLY = 0.6
"""Share of DRAM bytes from which a tensor is named, and of bandwidth from which a NoC pipe is."""
_LARGE_PART = 0.2
"""Share of a wait from which an operator is named."""

_ENGINES = {
    **{name: unit.cause.awaited for name, unit in UNITS.items()},
    "dma_out": "the stores (dma_out)",
}


def sentences(scene: VerdictFigures) -> list[str]:
    """Return the verdict: the limit of an operator or its waits, and the changes that gain most."""
    part, engine = scene.part, scene.engine
    if is_bound(part):
        return [_bound(scene), *advice(scene.gains)]
    worst = worst_causes(scene)
    if not worst:
        return [_unclear(scene), *advice(scene.gains)]
    who = engine_text(engine)
    plain = engine == part.unit_name(ARRAY) or part.name == TOTAL
    subject = _name(part) if plain else f"{who[0].upper()}{who[1:]} in {_name(part)}"
    directly = _direct(scene, worst[0])
    lines = []
    for at, cause in enumerate(worst):
        share, direct = short_share_text(scene.share(cause)), _direct(scene, cause)
        what = f"Another {share}{direct * (direct != directly)}"
        if not at:
            what = f"{subject} waits {share} of its time{directly}"
        lines.append(f"{what}: {_WHY[cause](scene)}.")
    return [*lines, *advice(scene.gains)]


def _name(part: OperatorDiagnosis) -> str:
    return "The run" if part.name == TOTAL else part.name


def _bound(scene: VerdictFigures) -> str:
    part, engine = scene.part, scene.engine
    busy = part.share(engine, "busy")
    working = f"{engine_text(engine)}, busy {short_share_text(busy)} of the time"
    text = f"{_name(part)} is bound by {working}"
    if engine == part.unit_name(ARRAY) and scene.ideal_cycles:
        pes = scene.ideal_cycles / part.cycles
        if pes < _FULL_PES * busy:
            share = short_share_text(pes)
            return f"{text}, but its PEs multiply in only {share} of the cycles: {_idle_pes(scene)}"
        return f"{text}, with {short_share_text(pes)} of its peak."
    return f"{text}."


def _idle_pes(scene: VerdictFigures) -> str:
    part, array = scene.part, scene.accelerator.array if scene.accelerator else None
    if array is None or _spatial(scene):
        return "passes that leave PEs, vector units or lanes unused."
    loading = scene.loading_cycles / part.cycles
    if loading > part.share(part.unit_name(ARRAY), "busy") / 2:
        return (
            f"in {short_share_text(loading)} it only loads the tile that it holds, "
            f"{array.cols} elements per cycle, because too few inputs stream past it."
        )
    return "folds that are part-filled, or short against fill and skew."


def _unclear(scene: VerdictFigures) -> str:
    part, engine = scene.part, scene.engine
    idle, busy = part.share(engine, "idle"), part.share(engine, "busy")
    idle_in = [each.name for each in scene.operators if each.share(engine, "idle")]
    where = f" (in {', '.join(idle_in)})" if idle_in else ""
    rest = "no cause stands out"
    if idle >= WORTH_SAYING:
        rest = f"idle {short_share_text(idle)}{where}"
    return f"{_name(part)}: {engine_text(engine)} is busy {short_share_text(busy)}, {rest}."


def engine_text(engine: str) -> str:
    """Return the name of an engine in a sentence."""
    plain, (chip, core) = without_core(engine), divmod(core_of_name(engine), CHIP)
    beside = "" if plain == LINK else " beside the links"
    where = beside if core >= PIPELINE else f" of core {core}" if core else ""
    of_chip = f" of chip {chip}" if chip else ""
    return _ENGINES.get(plain, f"the loads ({plain})") + where + of_chip


def _direct(scene: VerdictFigures, cause: str) -> str:
    """Name what an engine waits for directly; the cause is the root of that wait."""
    if scene.part.name == TOTAL:
        cycles: Counter[str] = Counter()
        for part in scene.operators:
            cycles += Counter({part.name: dict(part.stalls(part.compute)).get(cause, 0)})
        most = [name for name, n in cycles.most_common(2) if n >= _LARGE_PART * cycles.total()]
        return f" (mostly in {' and '.join(most)})" if most and len(cycles) > len(most) else ""
    wait = scene.part.longest_wait(scene.engine, cause)
    if wait is None or not wait.tile:
        return ""
    if wait.kind == "end":
        return f" for the end of {wait.tile} on other cores"
    if wait.kind == "free":
        return f" for a free slot of {wait.tile}, held by {engine_text(wait.waits_for)}"
    if is_sums(wait.tile):
        return f" for {wait.tile} tiles, partial sums that come back from DRAM"
    by = f" from {engine_text(wait.waits_for)}" if without_core(wait.waits_for) in _ENGINES else ""
    return f" for {wait.tile} tiles{by}"


def _dram_bandwidth(scene: VerdictFigures) -> str:
    use = use_of(scene, "dram")
    if use is None:
        return "its transfers queue for DRAM bandwidth"
    text = f"DRAM {_way(scene.part)} at {use_text(use)}{_tensor(scene.part)}"
    if use.share >= _SATURATED:
        return text
    both = all(scene.part.moved.get(f"dram_{way}") for way in ("read", "write"))
    if both and scene.accelerator is not None and scene.accelerator.dram.turnaround_cycles:
        return f"{text}; the rest goes to turnarounds, or comes in bursts that nothing overlaps"
    return f"{text}; it is not full, so the transfers come in bursts that nothing overlaps"


def _way(part: OperatorDiagnosis) -> str:
    reads, writes = (sum(part.moved.get(f"dram_{way}", {}).values()) for way in ("read", "write"))
    if not reads + writes:
        return "runs"
    if reads >= _ONE_WAY * (reads + writes):
        return "reads run"
    return "writes run" if writes >= _ONE_WAY * (reads + writes) else "runs"


def _tensor(part: OperatorDiagnosis) -> str:
    """Name the tensor with most of the DRAM bytes, if it has at least `_MOSTLY` of them."""
    reads, writes = (Counter(part.moved.get(f"dram_{way}", {})) for way in ("read", "write"))
    tensor, n_bytes = max((reads + writes).items(), key=lambda pair: pair[1], default=("", 0))
    if not tensor or n_bytes < _MOSTLY * (reads + writes).total():
        return ""
    ways = [(reads[tensor], "read"), (writes[tensor], "written")]
    parts = " and ".join(f"{bytes_text(n)} {way}" for n, way in ways if n)
    return f", {short_share_text(n_bytes / (reads + writes).total())} of it for {tensor} ({parts})"


def _dram_latency(scene: VerdictFigures) -> str:
    hardware = scene.accelerator
    if hardware is None:
        return "what was read from DRAM is still on its way"
    use = use_of(scene, "dram")
    was_reported = scene.share("dram_bandwidth") >= WORTH_SAYING
    busy = "" if use is None or was_reported else f", while DRAM runs at {use_text(use)}"
    return (
        f"a load arrives {hardware.dram.latency_cycles} cycles after its turn and too few are on "
        f"their way{busy}"
    )


def _dram_queue(scene: VerdictFigures) -> str:
    hardware = scene.accelerator
    if hardware is None or hardware.dram.in_flight_bytes is None:
        return "the limit of bytes on their way from DRAM is reached"
    most, latency = bytes_text(hardware.dram.in_flight_bytes), hardware.dram.latency_cycles
    return f"at most {most} may be on their way from DRAM in each {latency} cycles"


def _dram_banks(scene: VerdictFigures) -> str:
    hardware = scene.accelerator
    part = (hardware and hardware.dram.part_name) or "DRAM"
    return f"rows of tiles lie in few banks of {part}, or in many pages: its data bus waits"


def _busiest(scene: VerdictFigures, level: str, ways: Sequence[str]) -> tuple[str, BandwidthUse]:
    """Return the direction in which a level is used most, and how much; "" of unknown ones."""
    uses = {way: use_of(scene, f"{level}_{way}") for way in ways}
    known = {way: use for way, use in uses.items() if use is not None}
    return max(known.items(), key=lambda pair: pair[1].share, default=("", BandwidthUse(0, 1)))


def _buffer_port(scene: VerdictFigures) -> str:
    way, use = _busiest(scene, "buffer", ("read", "write"))
    if not way:
        return "the ports of the buffer are in use"
    return f"the buffer's {way} port runs at {use_text(use)}"


def _noc(scene: VerdictFigures) -> str:
    accelerator = scene.accelerator
    way, use = _busiest(scene, "noc", ("distribution", "collection"))
    if accelerator is None or not way:
        return "words are on their way through the NoC"
    if use.share < _MOSTLY:
        hops = (
            f"{accelerator.lead_latency_cycles} cycles in and {accelerator.tail_latency_cycles} out"
        )
        if _spatial(scene):
            return (
                f"the PEs wait for data on the NoC, although its {way} pipe runs at "
                f"{use_text(use)} only; latency {hops}"
            )
        return f"each GEMM pays the NoC's latency, {hops}"
    return f"the NoC's {way} pipe runs at {use_text(use)}"


def _spatial(scene: VerdictFigures) -> bool:
    hardware = scene.accelerator
    return hardware is not None and isinstance(hardware.array, SpatialArraySpec)


def _core_noc(scene: VerdictFigures) -> str:
    hardware = scene.accelerator
    if hardware is None:
        return "bytes are on their way between memories and cores"
    noc = hardware.cores.noc
    return (
        f"a link of the {noc.topology} between memories and {hardware.cores.count} cores carries "
        f"{noc.link_bytes_per_cycle} B a cycle, and each hop takes {noc.hop_cycles} cycles"
    )


def _sfu(scene: VerdictFigures) -> str:
    sfu, array = (scene.part.share(scene.part.unit_name(unit), "busy") for unit in (SFU, ARRAY))
    busy = short_share_text(sfu)
    hardware = scene.accelerator
    text = f"the SFU is busy {busy}"
    if hardware is not None:
        text += f" with its {hardware.sfu.lanes} lanes in {hardware.sfu.passes} passes"
    turns = ", and array and SFU take turns instead of overlapping"
    return text + turns * (sfu + array >= BOUND)


def _link(scene: VerdictFigures) -> str:
    hardware = scene.accelerator
    size = "" if hardware is None else f" of {hardware.pod.count} chips"
    lanes = [name for name in scene.part.engines if without_core(name) == LINK]
    busy = max((scene.part.share(lane, "busy") for lane in lanes), default=0.0)
    text = f"the links{size} are busy {short_share_text(busy)}"
    return text if busy else "what comes over links is on its way"


def _unit(name: str, scene: VerdictFigures) -> str:
    busy = scene.part.share(scene.part.unit_name(name), "busy")
    doing = f"is busy {short_share_text(busy)}" if busy else "works on another operator"
    return f"{UNITS[name].cause.awaited} {doing}"


def _start(scene: VerdictFigures) -> str:
    cycles = scene.accelerator and f"{scene.accelerator.compiler.kernel_start_cycles:,} "
    return f"each takes {cycles or ''}cycles before its first load (compiler.kernel_start_cycles)"


_WHY: dict[str, Callable[[VerdictFigures], str]] = {
    "dram_bandwidth": _dram_bandwidth,
    "dram_latency": _dram_latency,
    "dram_queue": _dram_queue,
    "dram_banks": _dram_banks,
    "buffer_port": _buffer_port,
    "noc": _noc,
    CORE_NOC: _core_noc,
    **{name: partial(_unit, name) for name in UNITS},
    SFU: _sfu,
    LINK: _link,
    "start": _start,
    "drain": lambda _: "its work is done, but other engines still work (usually the last stores)",
}


def use_text(use: BandwidthUse) -> str:
    """Return the use of a bandwidth as text; above the limit, some bytes moved before the part.

    >>> use_text(BandwidthUse(48e9, 50e9)), use_text(BandwidthUse(51e9, 50e9))
    ('48.0 of 50.0 GB/s (96%)', '50.0 GB/s (100%, and some before)')
    """
    if use.used > use.limit:
        return f"{rate_text(round(use.limit))} (100%, and some before)"
    used, limit = rate_text(round(use.used)), rate_text(round(use.limit))
    number, unit = used.split()
    if limit.endswith(f" {unit}"):
        used = number
    return f"{used} of {limit} ({short_share_text(use.share)})"


_NEARLY = 0.95
"""Share of the largest gain from which a smaller change is preferred."""
_SLOTS = ("slots",)


def freed_text(case: Sequence[str]) -> str:
    """Return the name of a case of unlimited resources.

    >>> freed_text(("array", "noc")), freed_text(("sfu",))
    ('array and NoC', 'SFU')
    """
    return " and ".join(FREED[name][0] for name in case).replace("and DRAM ", "and ")


def advice(gains: Mapping[tuple[str, ...], float]) -> Iterator[str]:
    """Yield the changes that would help most, by runs with unlimited resources."""
    if not gains:
        return
    most = max(gains.values())
    if most < WORTH_A_CHANGE:
        yield "No change of a resource gains 2%: only another mapping can."
        return
    # the least change that gains nearly as much as any, slots first: they cost only buffer
    near = [case for case, gain in gains.items() if gain - 1 >= _NEARLY * (most - 1)]
    case = min(near, key=lambda changed: (len(changed), changed != _SLOTS, -gains[changed]))
    text = f"Largest gain: {_change(case)}, up to {gains[case]:.2f} x."
    single = {
        changed: gain for changed, gain in gains.items() if len(changed) == 1 and changed != case
    }
    ranked = sorted(single, key=lambda changed: -single[changed])
    rest = [
        f"{_change(changed)} {single[changed]:.2f} x"
        for changed in ranked
        if single[changed] >= WORTH_A_CHANGE
    ]
    label = "Next" if len(case) == 1 else "Alone"
    yield f"{text} {label}: {', '.join(rest[:2])}." if rest else text


def _change(case: Sequence[str]) -> str:
    if tuple(case) == _SLOTS:
        return "more slots for the tiles (deeper prefetch)"
    if tuple(case) == ("dram_bandwidth",):
        return "DRAM bandwidth (or a mapping that moves fewer bytes)"
    return freed_text(case)
