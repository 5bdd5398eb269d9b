"""Timings of DRAM commands from both sides, and what the controller makes of them.

Expected figures are sums of the part's timings, worked out here, and not read from the model.
"""

import pytest

from simaccel.hardware.dram.part import TIMINGS, DramPart
from simaccel.hardware.dram.parts import PARTS
from validation.dram.banks import Banks
from validation.dram.controller import BurstTraffic, Controller, ControllerSpec
from validation.dram.window import WindowController

EVERY = list(PARTS.values())
DDR4, HBM2 = PARTS["DDR4-3200x64"], PARTS["HBM2"]


def _name(part: DramPart) -> str:
    return part.name


def _run(part: DramPart, reads: list[tuple[int, int]], writes: int = 0) -> Controller:
    """Serve reads (bank, row), then writes to row 0 of bank 0, without refresh."""
    count = len(reads) + writes
    traffic = BurstTraffic(
        banks=[bank for bank, _ in reads] + [0] * writes,
        rows=[row for _, row in reads] + [0] * writes,
        writes=[0] * len(reads) + [1] * writes,
        keys=list(range(count)),
    )
    controller = Controller(part, ControllerSpec(), traffic, refresh=False)
    controller.run(100_000)
    return controller


@pytest.mark.parametrize("part", EVERY, ids=_name)
def test_every_figure_of_a_part_says_where_it_comes_from(part: DramPart) -> None:
    for field in ("clock_ps", "burst_bytes", "page_bytes", "rows", *TIMINGS):
        assert part.origin(field)


@pytest.mark.parametrize("part", EVERY, ids=_name)
def test_a_read_of_a_closed_bank_takes_activate_and_latency(part: DramPart) -> None:
    """One clock to its bank's queue, then tRCD, the read latency and the burst."""
    served = _run(part, [(0, 0)]).served
    assert served.latency == 1 + part.rcd_read + part.read_latency + part.burst
    assert (served.bursts, served.activates) == (1, 1)


@pytest.mark.parametrize("part", EVERY, ids=_name)
def test_a_row_that_is_open_costs_no_activate(part: DramPart) -> None:
    """The second burst follows the first by tCCD_L, as both are in one bank."""
    served = _run(part, [(0, 0), (0, 0)]).served
    first = 1 + part.rcd_read + part.read_latency + part.burst
    second = first + max(part.burst, part.ccd_l) - 1  # asked for a clock later
    assert served.latency == first + second
    assert served.activates == 1


@pytest.mark.parametrize("part", EVERY, ids=_name)
def test_another_row_of_the_bank_waits_for_a_whole_row_cycle(part: DramPart) -> None:
    """Activate, tRAS or read and tRTP, precharge, activate: a bank conflict."""
    served = _run(part, [(0, 0), (0, 1)]).served
    cycle = max(part.ras, part.rcd_read + part.rtp) + part.rp
    first = 1 + part.rcd_read + part.read_latency + part.burst
    assert served.latency == first + (first + cycle - 1)
    assert served.activates == 2


@pytest.mark.parametrize("part", EVERY, ids=_name)
def test_the_fifth_activate_waits_for_the_window(part: DramPart) -> None:
    """Of five banks in five bank groups, or as many as there are, no command is too early."""
    banks, clock, sent = Banks(part), 0, []
    for at in range(5):
        bank = at % part.bank_groups * part.banks_per_group + at // part.bank_groups
        clock = max(clock, banks.may_activate(bank))
        banks.activate(bank, 0, clock)
        sent.append(clock)
    groups = [at % part.bank_groups for at in range(5)]
    for at in range(1, 5):
        gaps = [
            sent[at] - sent[before] >= (part.rrd_l if groups[at] == groups[before] else part.rrd_s)
            for before in range(at)
        ]
        assert all(gaps)
    assert sent[4] >= part.faw
    if part.faw >= 3 * part.rrd_l + part.rrd_l:
        assert sent[4] == part.faw


def test_a_change_of_direction_costs_what_the_data_bus_waits() -> None:
    """Read data end CL + 4 after the command; write data begin CWL after theirs, tRTRS later."""
    banks = Banks(DDR4)
    banks.activate(0, 0, 0)
    banks.access(0, 0, 100)
    assert banks.may_access(0, 1) == 100 + 22 + 4 + 1 - 16
    assert banks.may_access(0, 0) == 100 + 8  # tCCD_L
    banks.access(0, 1, 200)
    assert banks.may_access(0, 0) == 200 + 16 + 4 + 12  # tWTR_L after the write's data
    assert banks.may_access(4, 0) == 200 + 16 + 4 + 4  # tWTR_S in another bank group
    assert banks.precharge_at[0] == 200 + 16 + 4 + 24  # tWR


def test_ranks_share_the_bus_and_pseudo_channels_do_not() -> None:
    two, pseudo = Banks(PARTS["DDR4-3200x64-2R"]), Banks(PARTS["HBM3"])
    two.access(0, 0, 50)
    assert two.may_access(16, 0) == 50 + 4 + 1  # the burst and tRTRS
    pseudo.access(0, 0, 50)
    assert pseudo.may_access(16, 0) == 0


def test_refresh_closes_all_banks_and_takes_its_time() -> None:
    """Two reads, a refresh due between them: the second waits for it."""
    reads = [0, DDR4.refi]
    traffic = BurstTraffic(banks=[0, 0], rows=[0, 0], writes=[0, 0], keys=[0, 1], arrivals=reads)
    controller = Controller(DDR4, ControllerSpec(), traffic)
    controller.run(2 * DDR4.refi - 1)
    first = 1 + 22 + 22 + 4
    # at tREFI the bank is closed; its activate follows tRP and tRFC later
    assert controller.served.latency == first + 22 + 560 + 22 + 22 + 4
    assert controller.served.activates == 2


def test_reads_of_one_burst_that_wait_together_are_one() -> None:
    traffic = BurstTraffic(banks=[0] * 3, rows=[0] * 3, writes=[0] * 3, keys=[7, 7, 8])
    controller = Controller(HBM2, ControllerSpec(), traffic, refresh=False)
    controller.run(1000)
    assert (controller.served.bursts, controller.served.merged) == (2, 1)
    assert controller.served.reads == 3


def test_few_writes_wait_and_many_do_not() -> None:
    assert _run(DDR4, [], writes=8).served.bursts == 0
    assert _run(DDR4, [], writes=9).served.bursts == 9


def test_a_window_takes_writes_where_nobody_reads_and_opens_rows_for_the_oldest() -> None:
    """One write goes at once; of two rows of a bank the first is not closed for the second."""
    one = BurstTraffic(banks=[0], rows=[0], writes=[1], keys=[0])
    alone = WindowController(DDR4, ControllerSpec(), one, refresh=False)
    alone.run(1000)
    assert alone.served.bursts == 1
    two = BurstTraffic(banks=[0, 0], rows=[0, 1], writes=[0, 0], keys=[0, 1])
    both = WindowController(DDR4, ControllerSpec(), two, refresh=False)
    both.run(1000)
    first = DDR4.rcd_read + DDR4.read_latency + DDR4.burst
    assert both.served.latency == first + (first + DDR4.ras + DDR4.rp - 1)
    assert both.served.activates == 2


def test_a_window_drains_writes_from_its_high_to_its_low_mark() -> None:
    """Reads wait all the time: writes wait for 26 of them, and go on to 6."""
    reads, writes = 400, 26
    traffic = BurstTraffic(
        banks=[0] * (reads + writes),
        rows=[0] * (reads + writes),
        writes=[0] * 20 + [1] * writes + [0] * (reads - 20),
        keys=list(range(reads + writes)),
    )
    controller = WindowController(DDR4, ControllerSpec(), traffic, refresh=False)
    changes = []
    for clock in range(1, 1500):
        before = controller.writing
        controller.run(clock)
        if controller.writing != before:
            changes.append((controller.writing, len(controller.queues[1])))
    assert changes[:2] == [(True, 26), (False, 6)]
