"""What patterns get: against formulas, and against runs of DRAMsim3 (validation/dram/data)."""

import pytest

from simaccel.hardware.dram.parts import PARTS
from tests.draws import some
from validation.dram.measure import idle_latencies, measure
from validation.dram.patterns import Pattern

ALL = list(PARTS)


@pytest.mark.parametrize("name", some(ALL))
def test_a_stream_gets_what_refresh_leaves(name: str) -> None:
    """A tRFC in each tREFI is lost, and closing and opening a bank of each group at the most."""
    part = PARTS[name]
    found = measure(part, "bgil", Pattern(kind="sequential"))
    lost = part.rfc + part.rp + part.rtp + part.rcd_read + part.bank_groups * part.rrd_s
    most = 1 - part.rfc / part.refi / part.ranks
    if part.pseudo_channels == 1:  # two in one clock would be needed to catch up
        assert 1 - lost / part.refi - 0.007 < found.efficiency
    assert found.efficiency < most + 0.002


def test_single_bursts_get_what_the_window_of_activates_lets_through() -> None:
    """Four bursts of 4 clocks in each tFAW of 34, less refresh."""
    part = PARTS["DDR4-3200x64"]
    found = measure(part, "bgil", Pattern(kind="random-chunk", chunk=64), refresh=False)
    assert found.efficiency == pytest.approx(4 * 4 / 34, rel=0.005)
    assert found.activates_per_burst == pytest.approx(1, abs=0.002)


def test_one_bank_gets_a_burst_in_each_row_cycle() -> None:
    """A pitch of all banks' rows: every row of 64 B is in the same bank; tRC is 74 clocks."""
    part = PARTS["DDR4-3200x64"]
    pattern = Pattern(kind="strided-tile", row=64, pitch=part.rows_of_all_banks, tile_rows=512)
    found = measure(part, "rbc", pattern, refresh=False)
    assert found.efficiency == pytest.approx(4 / 74, rel=0.01)


@pytest.mark.parametrize("reads", [1, 2, 4])
def test_few_reads_in_flight_get_what_littles_law_says(reads: int) -> None:
    """Hits come CL + burst + 1 after asking; the next is asked for a clock later."""
    part = PARTS["DDR4-3200x64"]
    pattern = Pattern(kind="sequential", reads_in_flight=reads)
    found = measure(part, "bgil", pattern, refresh=False)
    assert found.efficiency == pytest.approx(reads * 4 / (22 + 4 + 2), rel=0.06)


def test_bytes_that_nobody_asked_for_are_not_useful() -> None:
    part = PARTS["DDR4-3200x64"]
    found = measure(part, "bgil", Pattern(kind="random-chunk", chunk=96))
    assert found.useful_efficiency == pytest.approx(found.efficiency * 96 / 128)


def test_a_light_load_waits_little_and_a_heavy_one_long() -> None:
    part = PARTS["HBM2"]
    light, heavy = (
        measure(part, "bgil", Pattern(kind="sequential", load=load)) for load in (0.1, 0.85)
    )
    assert light.efficiency == pytest.approx(0.1, rel=0.05)
    assert light.latency_ns is not None
    assert heavy.latency_ns is not None
    assert light.latency_ns < 40 < heavy.latency_ns


def test_idle_latencies_are_those_of_hit_and_conflict() -> None:
    """DDR4: 27 and 71 clocks of 0.625 ns, as there is time to close the row: see the median."""
    part = PARTS["DDR4-3200x64"]
    found = idle_latencies(part)
    wait = part.rfc**2 / part.refi / 2  # mean wait for a refresh that is under way
    assert found["hit"] == pytest.approx((27 + wait) * 0.625, rel=0.1)
    assert found["conflict"] == pytest.approx((71 + wait) * 0.625, rel=0.12)


@pytest.mark.long
def test_the_same_is_measured_twice() -> None:
    pattern = Pattern(kind="random-chunk", chunk=256, write_fraction=0.3)
    part = PARTS["LPDDR5-6400x16"]
    assert measure(part, "bgil", pattern) == measure(part, "bgil", pattern)


# rows of throughput.csv; controller banks: DRAMsim3, window: Ramulator
TILE = Pattern(kind="strided-tile", row=64, pitch=6144, tile_rows=16)
REFERENCE = [
    ("DDR4-3200x64", "bgil", "banks", Pattern(kind="random-chunk", chunk=512), 0.8761),
    ("DDR4-3200x64", "bgil", "banks", Pattern(kind="alternating", chunk=1024), 0.6830),
    ("DDR4-3200x64", "rbc", "banks", Pattern(kind="alternating", chunk=64, waits=True), 0.1506),
    ("DDR4-3200x64", "rbc", "banks", Pattern(kind="alternating", chunk=1024, apart=True), 0.5079),
    ("DDR4-3200x64", "bgil", "banks", Pattern(kind="two-streams", chunk=128), 0.9070),
    ("HBM2", "rgbc", "banks", Pattern(kind="alternating", chunk=1024, waits=True), 0.5141),
    ("HBM2", "rgbc", "banks", Pattern(kind="alternating", chunk=8192, apart=True), 0.8820),
    (
        "HBM2",
        "rgbc",
        "banks",
        Pattern(kind="strided-tile", row=64, pitch=6144, tile_rows=16),
        0.9211,
    ),
    ("DDR4-3200x64", "bgil", "window", Pattern(kind="alternating", chunk=64), 0.5589),
    ("DDR4-3200x64", "mopxor", "window", Pattern(kind="strided-tile", row=64, pitch=4096), 0.4829),
    ("DDR4-3200x64", "rbc", "window", Pattern(kind="two-streams", chunk=64), 0.4843),
    ("HBM2-PC", "lowil", "window", Pattern(kind="strided-tile", row=256, pitch=1536), 0.8755),
]


@pytest.mark.parametrize(
    ("name", "mapping", "controller", "pattern", "efficiency"), some(REFERENCE)
)
def test_the_reference_gets_the_same(
    name: str, mapping: str, controller: str, pattern: Pattern, efficiency: float
) -> None:
    found = measure(PARTS[name], mapping, pattern, controller)
    assert found.efficiency == pytest.approx(efficiency, rel=0.02)
