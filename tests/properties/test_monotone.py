"""More of a resource: where it can't slow a program down, and where it does.

As long as nobody shares a resource, every start is a maximum of finishes (max-plus), so more of
anything is never slower. Requesters that share a bandwidth in turns can do worse with more of it:
what a faster part lets come early competes with what is urgent (Graham 1969, "Bounds on
multiprocessing timing anomalies"). The smallest such programs that a search found stand below.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel.hardware import Accelerator
from simaccel.machine.machine import Machine
from simaccel.program.program import (
    Compute,
    Loop,
    Node,
    Operator,
    Program,
    Sfu,
    Store,
    Tile,
    reserved,
)
from simaccel.workload import gemm
from tests.machine.accelerators import accelerator, accelerators, gigabytes
from tests.program.programs import Case, cases, gemm_case

FEW = settings(max_examples=40)  # each of them runs the machine for every change
UNSHARED = {"read_bytes_per_second": "unlimited", "write_bytes_per_second": "unlimited"}
ALONE = accelerators(
    dram={"bandwidth_bytes_per_second": "unlimited", "in_flight_bytes": "unlimited"},
    buffer=UNSHARED,
)
ONE_QUEUE = accelerators(buffer=UNSHARED, dma={"in_queues": "single"})


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

    def body(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(node_(node) for node in nodes)

    def node_(node: Node) -> Node:
        if isinstance(node, Loop | Operator):
            return replace(node, tiles=tuple(map(tile, node.tiles)), body=body(node.body))
        if isinstance(node, Compute | Sfu):
            return replace(node, out=tile(node.out), inputs=tuple(map(tile, node.inputs)))
        return replace(node, tile=tile(node.tile))

    return Program(name=program.name, body=body(program.body))


def _tile_names(program: Program) -> list[str]:
    return sorted({name for use in reserved(program).values() for name in use})


def _without_stores(program: Program) -> Program:
    """Leave only loads to the DRAM: with one queue they are its only requester."""

    def body(nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(
            replace(node, body=body(node.body)) if isinstance(node, Loop | Operator) else node
            for node in nodes
            if not isinstance(node, Store)
        )

    return Program(name=program.name, body=body(program.body))


@FEW
@given(cases(), ALONE)
def test_without_sharing_nothing_that_is_faster_slows_a_program_down(
    case: Case, on: Accelerator
) -> None:
    cycles = _cycles(on, case.program)
    for faster in _faster(on):
        assert _cycles(faster, case.program) <= cycles


@FEW
@given(cases(), ALONE)
def test_without_sharing_no_slot_slows_a_program_down(case: Case, on: Accelerator) -> None:
    cycles = _cycles(on, case.program)
    for name in _tile_names(case.program):
        assert _cycles(on, _more_slots(case.program, name)) <= cycles


@FEW
@given(cases(), ONE_QUEUE, st.integers(2, 5))
def test_one_requester_gains_from_bandwidth_latency_and_slots(
    case: Case, on: Accelerator, factor: int
) -> None:
    program = _without_stores(case.program)
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


def _shared(bandwidth: int, turn_cycles: int = 1, **dram: int) -> dict[str, Any]:
    return {
        "bandwidth_bytes_per_second": gigabytes(bandwidth),
        "turn_cycles": turn_cycles,
        **dram,
    }


def test_anomaly_more_bandwidth() -> None:
    """At 4 B/cycle the next A comes back into step with the stores and takes turns with them."""
    case = gemm_case(
        gemm(m=10, k=1, n=5, batch=3), m=4, k=1, n=2, order="knm", b_slots=1, a_slots=2
    )
    assert _cycles(accelerator(dram=_shared(2, 2)), case.program) == 401
    assert _cycles(accelerator(dram=_shared(4, 2)), case.program) == 402


def test_anomaly_less_latency() -> None:
    case = gemm_case(gemm(m=1, k=9, n=6, batch=2), m=1, k=3, n=2, order="mnk", out_slots=1)
    assert _cycles(accelerator(dram=_shared(1, latency_cycles=4)), case.program) == 369
    assert _cycles(accelerator(dram=_shared(1, latency_cycles=3)), case.program) == 370


def test_anomaly_more_slots() -> None:
    """With a third slot, a B for later shares the bandwidth with the A that is needed now."""

    def cycles(b_slots: int) -> int:
        case = gemm_case(gemm(m=1, k=2, n=2, batch=3), b_slots=b_slots, out_slots=1)
        return _cycles(accelerator(dram=_shared(1)), case.program)

    assert cycles(2) == 67
    assert cycles(3) == 68


def test_anomaly_more_outstanding_requests() -> None:
    """From cycle 15 C is stored, so that the array gets its only slot back.

    Alone (one request at a time) this takes until 17 and B comes after it; with two requests at
    a time they take turns, and C is done at 18.
    """
    case = gemm_case(gemm(m=1, k=1, n=2, batch=2), n=1, order="mkn", a_slots=1, out_slots=1)
    assert _cycles(accelerator(dram=_shared(1, max_outstanding=1)), case.program) == 60
    assert _cycles(accelerator(dram=_shared(1, max_outstanding=2)), case.program) == 61


def test_anomaly_a_queue_for_each_tensor() -> None:
    """A single queue loads in the order of need; queues of their own share between all loads."""
    case = gemm_case(gemm(m=1, k=1, n=1, batch=3), order="mkn", b_slots=1, out_slots=1)
    single = accelerator(dram=_shared(1), dma={"in_queues": "single"})
    assert _cycles(single, case.program) == 47
    assert _cycles(accelerator(dram=_shared(1)), case.program) == 48


def test_anomaly_turnaround_with_short_turns() -> None:
    """Loads and stores that take turns of one cycle turn the bus round twice a round.

    One request at a time keeps the directions apart: more of them cost more than they hide.
    """
    case = gemm_case(gemm(m=4, k=4, n=4, batch=8), a_slots=2, b_slots=2, out_slots=2)

    def cycles(outstanding: int) -> int:
        dram = _shared(1, turnaround_cycles=7, max_outstanding=outstanding)
        return _cycles(accelerator(dram=dram), case.program)

    assert cycles(4) > 2 * cycles(1)
