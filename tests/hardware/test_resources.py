"""Bytes per cycle of channels, and of all channels that some engines have."""

from fractions import Fraction

import pytest

from simaccel.hardware.resources import channel_rates, limits_of
from simaccel.importers.accelerators import load_accelerator
from tests.machine.accelerators import accelerator

# 1 GHz: a channel of the DRAM takes 4 of 8 B a cycle, a port 32 B
ON = accelerator(
    dram={"bandwidth_bytes_per_second": "8 GB/s", "channels": 2},
    buffer={"read_bytes_per_second": "32 GB/s", "write_bytes_per_second": "unlimited"},
    cores={"count": 4},
)


def test_channels_have_rates() -> None:
    names = ["dram1", "core2.buffer_read", "buffer_write", "core_noc_0_1"]
    assert [*channel_rates(ON, names).values()] == [4, 32, None, None]


def test_limits_count_chips_and_cores() -> None:
    """DRAMs belong to chips, ports to cores; engines beside the links have none of a core."""
    cases = {
        ("array",): (8, 32),
        ("array", "sfu", "core3.array"): (8, 64),
        ("core1.array", "chip2.array", "remote.link"): (16, 64),
        (): (8, 32),
    }
    for engines, (dram, port) in cases.items():
        limits = limits_of(ON, engines)
        named = [limits[name] for name in ("dram", "buffer_read", "buffer_write")]
        assert named == [dram, port, None]


TORUS = ["links.topology=torus", "links.bytes_per_second=7200 MB/s", "links.closes_at=4"]


@pytest.mark.parametrize(
    ("given", "rates"),
    [
        (["chips=2x2x1", "links.dimensions=3"], {"links0": 10, "links1": 10}),
        (["chips=2x4", "links.dimensions=2"], {"links0": 10, "chip3.links1": 20}),
        (["chips=2x3", "links.dimensions=2"], {"links0": 10, "links1": Fraction(40, 3)}),
        (
            ["chips=2x2x4", "links.dimensions=2", "links.network_bytes_per_second=720 MB/s"],
            {"links0": 1, "links1": 10, "links2": 20},
        ),
    ],
)
def test_links_of_each_dimension_have_their_rate(
    given: list[str], rates: dict[str, Fraction]
) -> None:
    """At 720 MHz, 10 B a cycle: two chips one link each, four two; of three in a line 4/3."""
    pod = load_accelerator("edge", [*given, *TORUS])
    assert channel_rates(pod, rates) == rates
    assert limits_of(pod, ["array"])["links"] == sum(rates.values())
    assert limits_of(pod, ["array", "chip2.array"])["links"] == 2 * sum(rates.values())


def test_links_without_a_limit_have_none() -> None:
    pod = load_accelerator("edge", ["chips=2", "links.bytes_per_second=unlimited"])
    assert channel_rates(pod, ["links0"]) == {"links0": None}
    assert limits_of(pod, ["array"])["links"] is None
