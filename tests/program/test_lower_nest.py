"""Lowering of nests, by hand: a small convolution with remainders and windows that slide."""

from __future__ import annotations

import pytest

from simaccel.analytic.estimate import estimate
from simaccel.hardware import Accelerator
from simaccel.hardware.levels import Role
from simaccel.machine.machine import Machine
from simaccel.mapping.choices import Mapping, NestGroup, NestLevel, NestMapping, WorkloadReference
from simaccel.program.lower import lower
from simaccel.program.lower_nest import NotExecutableError
from simaccel.program.program import DoesNotFitError, reserved
from simaccel.program.text import program_text
from simaccel.workload import Affine, Einsum, Operand, Tensor, Workload, operand

LINE = Einsum(
    "line",
    {"m": 2, "p": 5, "r": 3},
    (Operand("I", (Affine((("p", 1), ("r", 1))),)), operand("W r m")),
    operand("O m p"),
)
WORKLOAD = Workload(
    "line",
    (LINE,),
    {"I": Tensor("I", 2), "W": Tensor("W", 2, "weight"), "O": Tensor("O", 2, "output")},
)
PE = {"capacity_bytes": "64 B", "read_pj_per_byte": 1, "write_pj_per_byte": 1}
SLOW = {"topology": "bus", "link_bytes_per_cycle": 2, "hop_cycles": 0}


def _accelerator(**sections: object) -> Accelerator:
    given: dict[str, object] = {
        "name": "two",
        "clock_hz": "1 GHz",
        "array": {
            "kind": "spatial",
            "rows": 1,
            "cols": 2,
            "memories": {"input": PE, "weight": PE, "output": PE},
            "bypass_buffer": ["weight"],
        },
        "buffer": {
            "capacity_bytes": "1 KiB",
            "read_bytes_per_second": "unlimited",
            "write_bytes_per_second": "unlimited",
        },
        "noc": {"distribution": SLOW, "collection": SLOW},
        "sfu": {"lanes": 1, "passes": 2, "latency_cycles": 0},
        "dram": {"bandwidth_bytes_per_second": "2 GB/s"},
        "energy": {
            "mac_pj": 1,
            "sfu_pj_per_element": 1,
            "buffer_pj_per_byte": 1,
            "noc_pj_per_byte": 1,
            "dram_pj_per_byte": 1,
        },
    }
    return Accelerator.model_validate({**given, **sections})


def _mapping(*inner: NestLevel, dram: tuple[str, ...] = ("m", "p")) -> Mapping:
    levels = (NestLevel(level="dram", order=dram, keep=("input", "weight", "output")), *inner)
    group = NestGroup(operator="line", mapping=NestMapping(levels=levels))
    reference = WorkloadReference(name="line", fingerprint=WORKLOAD.fingerprint)
    return Mapping(workload=reference, dataflow="hand", groups=(group,))


ALL: tuple[Role, ...] = ("input", "weight", "output")
SLIDING = _mapping(
    NestLevel(level="buffer", factors={"p": 2}, order=("p",), keep=("input", "output")),
    NestLevel(level="rows"),
    NestLevel(level="cols", factors={"p": 2}),
    NestLevel(level="pe", factors={"r": 3}, keep=ALL),
)


def test_a_window_slides_within_each_tile_and_starts_anew_in_the_next() -> None:
    """Four positions a tile of the buffer, two a pass, so 4 + 1 and 2 + 2 and 1 of them.

    The buffer's window of 6 moves by 4 and keeps 2 of the 3 that the last position needs. PEs
    hold 3 each, 4 together, and move by 2: each keeps one, together they keep two.
    """
    assert (
        program_text(lower(WORKLOAD, SLIDING))
        == """\
program line-hand
  operator line
    loop m 2 from 0 step 1
      tile pe.W 3x1 x1 in pe.weight 6B each of W[r=3,m=2] 2B
      load pe.W queue 1 moves 6/12
      loop p 1 from 0 step 4
        tile I 6 x1 of I[p+r=7] 2B
        tile O 1x4 x1 of O[m=2,p=5] 2B
        load I queue 0
        loop p 1 from 0 step 2
          tile pe.I 4 x1 in pe.input 6B each of I[p+r=7] 2B
          tile pe.O 1x2 x1 in pe.output 2B each of O[m=2,p=5] 2B
          load pe.I queue 0 from tile I moves 8/12
          compute pe.O = pe.I pe.W over m=1 p=2 r=3 steps 3 on 1x2 reads 0/12 0/12 0/8 writes 0/12
          store pe.O into tile O moves 4/4
        loop p 1 from 2 step 2
          tile pe.I 4 x1 in pe.input 6B each of I[p+r=7] 2B
          tile pe.O 1x2 x1 in pe.output 2B each of O[m=2,p=5] 2B
          load pe.I queue 0 from tile I slides moves 4/8
          compute pe.O = pe.I pe.W over m=1 p=2 r=3 steps 3 on 1x2 reads 0/12 0/12 0/8 writes 0/12
          store pe.O into tile O moves 4/4
        store O
      loop p 1 from 4 step 4
        tile I 3 x1 of I[p+r=7] 2B
        tile O 1x1 x1 of O[m=2,p=5] 2B
        load I queue 0 slides moves 2/2
        loop p 1 from 0 step 2
          tile pe.I 3 x1 in pe.input 6B each of I[p+r=7] 2B
          tile pe.O 1x1 x1 in pe.output 2B each of O[m=2,p=5] 2B
          load pe.I queue 0 from tile I moves 6/6
          compute pe.O = pe.I pe.W over m=1 p=1 r=3 steps 3 on 1x1 reads 0/6 0/6 0/4 writes 0/6
          store pe.O into tile O moves 2/2
        store O
"""
    )


def test_it_takes_the_cycles_of_a_calculation_by_hand() -> None:
    """2 bytes a cycle on the DRAM and each pipe, one slot a tile, so little overlaps.

    For m = 0 the three passes run in 10..13, 15..18 and 21..24, for m = 1 in 34..37, 39..42 and
    45..48: the first of each waits 9 cycles for W from DRAM, which serves I before, and one more
    for I on the pipe; the second for its window (2 cycles), the third for a new one (3). Then
    there is 1 cycle to the buffer and 1 to DRAM.
    """
    run = Machine(_accelerator(), lower(WORKLOAD, SLIDING)).run()
    assert run.cycles == 50
    assert run.macs == 2 * 5 * 3
    array = run.engines["array"]
    assert array.busy == 6 * 3
    assert array.stalls == {"dram_bandwidth": 2 * 9, "noc": 2 * (1 + 2 + 3), "drain": 2}
    assert run.moved == estimate(WORKLOAD, SLIDING, _accelerator()).moved


def test_sums_come_back_from_the_buffer() -> None:
    """The window's three taps one after the other: sums of 5 go up three times, come back twice."""
    mapping = _mapping(
        NestLevel(level="buffer", factors={"r": 3, "p": 3}, order=("r", "p"), keep=("output",)),
        NestLevel(level="rows"),
        NestLevel(level="cols", factors={"p": 2}),
        NestLevel(level="pe", keep=ALL, slots={"output": 3}),
    )
    on = _accelerator()
    program = lower(WORKLOAD, mapping)
    text = program_text(program)
    assert text.count("reserve O queue 2 noc") == 1
    assert text.count("reserve pe.O queue 2 noc") == 3  # a first window, one that slides, the last
    assert "load pe.O queue 2 from tile O back moves 4/4" in text
    moved = Machine(on, program).run().moved
    assert moved["buffer_write", "O"] == 2 * 3 * 5 * 2
    assert moved["buffer_read", "O"] == 2 * 2 * 5 * 2 + 2 * 5 * 2
    assert moved["dram_write", "O"] == 2 * 5 * 2
    # three tiles of sums in each step of the reduction, of which the slots may be as many
    assert "tile pe.O 1x2 x3" in text


def test_slots_of_sums_are_no_more_than_tiles_of_the_shortest_reduction_step() -> None:
    """With p outside the last tile has one block of sums: of two slots one would be too early."""
    mapping = _mapping(
        NestLevel(level="buffer", factors={"r": 3, "p": 2}, order=("r", "p"), keep=("output",)),
        NestLevel(level="rows"),
        NestLevel(level="cols", factors={"p": 2}),
        NestLevel(level="pe", keep=ALL, slots={"output": 3}),
        dram=("p", "m"),
    )
    assert "tile pe.O 1x2 x1" in program_text(lower(WORKLOAD, mapping))


def test_memories_of_pes_are_refused_when_too_small() -> None:
    small = {**PE, "capacity_bytes": "4 B"}
    array = {
        "kind": "spatial",
        "rows": 1,
        "cols": 2,
        "memories": {"input": small, "weight": PE, "output": PE},
        "bypass_buffer": ["weight"],
    }
    with pytest.raises(DoesNotFitError) as refusal:
        Machine(_accelerator(array=array), lower(WORKLOAD, SLIDING))
    assert str(refusal.value) == (
        "line: tiles need 6 B, the memory of a PE (pe.input) has 4 B, 2 B too many: pe.I 1 x 6 B"
    )


def test_reserved_space_is_told_by_place() -> None:
    program = lower(WORKLOAD, SLIDING)
    assert reserved(program) == {"line": {"I": (12, 1), "O": (8, 1)}}
    assert reserved(program, "pe.weight") == {"line": {"pe.W": (6, 1)}}


def test_sums_that_nobody_keeps_are_refused() -> None:
    mapping = _mapping(
        NestLevel(level="buffer", keep=("input",)),
        NestLevel(level="rows"),
        NestLevel(level="cols"),
        NestLevel(level="pe", keep=("input", "weight")),
    )
    with pytest.raises(NotExecutableError, match="line: partial sums are kept neither"):
        lower(WORKLOAD, mapping)
