"""Bytes per cycle of channels, and of all channels that some engines have."""

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
    rates = channel_rates(ON)
    assert [rates[name] for name in ("dram", "buffer_read", "buffer_write")] == [4, 32, None]
    assert "core_noc" not in rates


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


def test_chips_share_their_links() -> None:
    """A chip of 2 x 2 x 1 at 720 MHz has a link to either neighbour, in a channel by dimension."""
    torus = ["links.topology=torus", "links.dimensions=3", "links.bytes_per_second=7200 MB/s"]
    pod = load_accelerator("edge", ["chips=2x2x1", *torus])
    assert [rates["links"] for rates in (channel_rates(pod), limits_of(pod, ["array"]))] == [10, 20]
