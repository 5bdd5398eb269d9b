"""More of a resource: where it can't slow a program down, and where it does.

As long as nobody shares a resource, every start is a maximum of finishes (max-plus), so more of
anything is never slower. Where loads and stores share a DRAM, what a faster part lets come early
may turn the bus round once more, or is older than what is urgent (Graham 1969, "Bounds on
multiprocessing timing anomalies"). The smallest such programs that a search found stand below: with
no turnaround it found none for bandwidth, latency and bytes in flight.
"""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.program.fit import reserved_slots
from simaccel.program.program import Compute, Node, Operator, Program, ProgramLoop, Sfu, Tile
from simaccel.workload import gemm
from tests.draws import DRAWS
from tests.machine.accelerators import DRAM, PORTS, accelerator, accelerators, gigabytes
from tests.program.changed import changed, unstored
from tests.program.programs import Case, cases, gemm_case

FEW = settings(max_examples=3 * DRAWS)  # each of them runs the machine for every change
ALONE = accelerators(dram=DRAM, buffer=PORTS)
ONE_QUEUE = accelerators(buffer=PORTS, dma={"in_queues": "single"})


def _cycles(on: Accelerator, program: Program) -> int:
    return Machine(on, program).run().cycles


def _changed(on: Accelerator, section: str, **fields: Any) -> Accelerator:  # noqa: ANN401
    """Replace fields of one section; nested ones by their section's dict."""
    raw = on.model_dump()
    for name in ("buffer", "dram"):
        raw[name] = {k: "unlimited" if v is None else v for k, v in raw[name].items()}
    raw[section] |= fields
    return Accelerator.model_validate(raw)


def _wider(on: Accelerator, pipe: str) -> Accelerator:
    spec = getattr(on.noc, pipe)
    fields = spec.model_dump() | {
        "link_bytes_per_cycle": spec.link_bytes_per_cycle + 1,
        "hop_cycles": max(0, spec.hop_cycles - 1),
    }
    return _changed(on, "noc", **{pipe: fields})


def _faster(on: Accelerator) -> list[Accelerator]:
    """Accelerators with more of one thing that no two requesters share."""
    dram, sfu = on.dram, on.sfu
    return [
        _changed(on, "dram", latency_cycles=dram.latency_cycles // 2),
        _changed(on, "sfu", lanes=sfu.lanes + 1),
        _changed(on, "sfu", latency_cycles=sfu.latency_cycles // 2),
        _wider(on, "distribution"),
        _wider(on, "collection"),
    ]


def _more_slots(program: Program, name: str) -> Program:
    """Give the tiles of a name one slot more."""

    def tile(old: Tile) -> Tile:
        return replace(old, slots=old.slots + 1) if old.name == name else old

    def more(node: Node) -> Node:
        if isinstance(node, ProgramLoop | Operator):
            return replace(node, tiles=tuple(map(tile, node.tiles)))
        if isinstance(node, Compute | Sfu):
            return replace(node, out=tile(node.out), inputs=tuple(map(tile, node.inputs)))
        return replace(node, tile=tile(node.tile))

    return changed(program, more)


def _tile_names(program: Program) -> list[str]:
    return sorted({name for use in reserved_slots(program).values() for name in use})


@settings(max_examples=6 * DRAWS)
@given(cases(), ALONE)
def test_without_sharing_nothing_slows_a_program_down(case: Case, on: Accelerator) -> None:
    """Nothing that is faster, and no slot."""
    cycles = _cycles(on, case.program)
    for faster in _faster(on):
        assert _cycles(faster, case.program) <= cycles
    for name in _tile_names(case.program):
        assert _cycles(on, _more_slots(case.program, name)) <= cycles


@FEW
@given(cases(), ONE_QUEUE, st.integers(2, 5))
def test_one_requester_gains_from_bandwidth_latency_and_slots(
    case: Case, on: Accelerator, factor: int
) -> None:
    program = changed(case.program, unstored)  # with one queue loads are the only requester
    cycles = _cycles(on, program)
    better = _faster(on)
    if on.dram.in_flight_bytes is not None:
        better.append(_changed(on, "dram", in_flight_bytes=2 * on.dram.in_flight_bytes))
    if on.dram.bandwidth_bytes_per_second is not None:
        more = factor * on.dram.bandwidth_bytes_per_second
        better.append(_changed(on, "dram", bandwidth_bytes_per_second=more))
    for faster in better:
        assert _cycles(faster, program) <= cycles
    for name in _tile_names(program):
        assert _cycles(on, _more_slots(program, name)) <= cycles


@given(cases(), accelerators())
def test_capacity_that_a_program_doesn_t_need_changes_nothing(case: Case, on: Accelerator) -> None:
    roomy = _changed(on, "buffer", capacity_bytes=2**40)
    assert Machine(roomy, case.program).run() == Machine(on, case.program).run()


def _shared(bandwidth: int, **dram: object) -> Accelerator:
    """Give a DRAM that loads and stores share."""
    return accelerator(dram={"bandwidth_bytes_per_second": gigabytes(bandwidth), **dram})


def _turning(
    bandwidth: int = 4, latency_cycles: int = 3, in_flight_bytes: int = 8, turnaround: int = 7
) -> int:
    """Run three small products, each change of direction at 7 cycles."""
    on = _shared(
        bandwidth,
        latency_cycles=latency_cycles,
        in_flight_bytes=in_flight_bytes,
        batch_bytes=4,
        turnaround_cycles=turnaround,
    )
    return _cycles(on, gemm_case(gemm(m=1, k=1, n=4, batch=3), order="nmk", a_slots=1).program)


def test_anomalies_of_bandwidth_latency_and_bytes_in_flight() -> None:
    """Changes of direction are as many, but more of them stand before a load that is needed.

    Loads that come earlier, or wait for fewer others, meet the stores: seven changes for five.
    Without turnarounds the same programs gain.
    """
    better: tuple[dict[str, int], ...] = (
        *({"bandwidth": 8}, {"latency_cycles": 2}, {"in_flight_bytes": 16}),
    )
    assert (_turning(), *(_turning(**one) for one in better)) == (69, 75, 80, 82)
    assert all(_turning(**one, turnaround=0) <= _turning(turnaround=0) for one in better)


def test_anomaly_more_slots() -> None:
    """An A for later is older than the B that is needed now: it costs without any turnaround."""

    def cycles(a_slots: int) -> int:
        workload = gemm(m=4, k=1, n=1, batch=3)
        case = gemm_case(workload, a_slots=a_slots, b_slots=1, out_slots=1)
        return _cycles(_shared(1, batch_bytes=8), case.program)

    assert [cycles(n) for n in (1, 2, 3)] == [96, 80, 82]


def test_anomaly_a_queue_for_each_tensor() -> None:
    """A single queue loads in the order of need; of several the one that asked first is served."""
    case = gemm_case(gemm(m=3, k=2, n=4, batch=3), order="nkm", out_slots=1)
    dram = _shared(4, latency_cycles=3, in_flight_bytes=8, batch_bytes=8)
    single = _changed(dram, "dma", in_queues="single")
    assert _cycles(single, case.program) == 76
    assert _cycles(dram, case.program) == 77


def test_short_batches_turn_the_bus_round() -> None:
    """Loads and stores in batches of one byte pay a turnaround for each byte."""
    case = gemm_case(gemm(m=4, k=4, n=4, batch=8))

    def cycles(batch_bytes: int) -> int:
        return _cycles(_shared(1, turnaround_cycles=7, batch_bytes=batch_bytes), case.program)

    assert cycles(1) > 4 * cycles(64)
