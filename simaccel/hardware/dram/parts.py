"""DRAM parts by name, each figure with where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from simaccel.hardware.dram.part import DramPart

_DRAMSIM3 = "DRAMsim3 (commit 2981759)"
_RAMULATOR = "Ramulator 2.1 (commit c5b1c3a)"
_LPDDR4 = (
    "customary LPDDR4-3200 data sheet numbers, quoted and not checked against JESD209-4: tRCD 18, "
    "tRP 18, tRAS 42, tRRD 10, tFAW 40, tWTR 10, tWR 18, tRTP 7.5, tRFC(all banks) 280 ns, "
    "tREFI 3.904 us, RL 28, WL 14, BL16, 8 banks of 2 KiB pages per x16 channel"
)
_BUS = "assumption: two clocks between the data of a read and of a write"


def _lpddr4(name: str, channels: int, note: str) -> partial[DramPart]:
    return partial(
        DramPart,
        name=name,
        clock_ps=625,
        stream_permille=918,
        burst_bytes=32 * channels,
        page_bytes=2048 * channels,
        rows=65536,
        banks_per_group=8,
        burst=8,
        read_latency=28,
        write_latency=14,
        rcd_read=29,
        rcd_write=29,
        rp=29,
        ras=68,
        rrd_s=16,
        rrd_l=16,
        faw=64,
        ccd_s=8,
        ccd_l=8,
        ccd_l_write=8,
        wtr_s=16,
        wtr_l=16,
        rtrs=2,
        wr=29,
        rtp=12,
        rfc=448,
        refi=6246,
        origins=(("rtrs", _BUS), ("", _LPDDR4 + note)),
    )


_ALL = (
    _lpddr4("LPDDR4-3200x16", 1, ""),
    _lpddr4("LPDDR4-3200x32", 2, "; two x16 channels in lockstep"),
    partial(
        DramPart,
        name="LPDDR5-6400x16",
        stream_permille=931,
        controller="window",
        clock_ps=1250,
        burst_bytes=32,
        page_bytes=2048,
        rows=32768,
        bank_groups=4,
        banks_per_group=4,
        burst=2,
        read_latency=17,
        write_latency=9,
        rcd_read=15,
        rcd_write=15,
        rp=15,
        ras=34,
        rrd_s=4,
        rrd_l=4,
        faw=16,
        ccd_s=2,
        ccd_l=4,
        ccd_l_write=4,
        wtr_s=5,
        wtr_l=10,
        rtrs=2,
        wr=28,
        rtp=8,
        rfc=168,
        refi=3125,
        origins=(
            ("rrd_s rrd_l faw rfc refi", f"{_RAMULATOR}, tables of JESD209-5B, 8 Gb in lpddr5.py"),
            ("rtrs", f"{_RAMULATOR}, read to write nCL + nBL + 2 - nCWL"),
            ("", f"{_RAMULATOR}, preset LPDDR5_6400 and LPDDR5_8Gb_x16 (bank-group mode, BL16)"),
        ),
    ),
    partial(
        DramPart,
        name="DDR4-3200x64",
        stream_permille=948,
        clock_ps=625,
        burst_bytes=64,
        page_bytes=8192,
        rows=65536,
        bank_groups=4,
        banks_per_group=4,
        burst=4,
        read_latency=22,
        write_latency=16,
        rcd_read=22,
        rcd_write=22,
        rp=22,
        ras=52,
        rrd_s=4,
        rrd_l=8,
        faw=34,
        ccd_s=4,
        ccd_l=8,
        ccd_l_write=8,
        wtr_s=4,
        wtr_l=12,
        rtrs=1,
        wr=24,
        rtp=12,
        rfc=560,
        refi=12480,
        origins=(
            ("clock_ps", "JESD79-4: 3200 MT/s is 0.625 ns; DRAMsim3 rounds to 0.63 ns"),
            ("", f"{_DRAMSIM3}, DDR4_8Gb_x8_3200.ini: eight 8 Gb x8 devices, 22-22-22"),
        ),
    ),
    partial(
        DramPart,
        name="DDR5-4800",
        stream_permille=914,
        controller="window",
        clock_ps=416,
        burst_bytes=64,
        page_bytes=4096,
        rows=65536,
        bank_groups=8,
        banks_per_group=4,
        burst=8,
        read_latency=40,
        write_latency=38,
        rcd_read=39,
        rcd_write=39,
        rp=39,
        ras=77,
        rrd_s=8,
        rrd_l=12,
        faw=32,
        ccd_s=8,
        ccd_l=12,
        ccd_l_write=48,
        wtr_s=6,
        wtr_l=24,
        rtrs=2,
        wr=72,
        rtp=18,
        rfc=710,
        refi=9375,
        origins=(
            ("rrd_s rrd_l faw", "JESD79-5: max(8 clocks, 5 ns), 32 clocks for x8 devices"),
            ("rfc refi", "JESD79-5: 295 ns for 16 Gb, 3.9 us"),
            ("rtrs", f"{_RAMULATOR}, read to write nCL + nBL + 2 - nCWL"),
            (
                "",
                (
                    f"{_RAMULATOR}, preset DDR5_4800B and DDR5_16Gb_x8: one 32-bit subchannel; "
                    "ccd_l_write is that of writes that read first"
                ),
            ),
        ),
    ),
    partial(
        DramPart,
        name="HBM2",
        stream_permille=921,
        clock_ps=1000,
        burst_bytes=64,
        page_bytes=2048,
        rows=32768,
        bank_groups=4,
        banks_per_group=4,
        dual_command=True,
        burst=2,
        read_latency=14,
        write_latency=4,
        rcd_read=14,
        rcd_write=14,
        rp=14,
        ras=34,
        rrd_s=4,
        rrd_l=6,
        faw=30,
        ccd_s=2,
        ccd_l=2,
        ccd_l_write=2,
        wtr_s=6,
        wtr_l=8,
        rtrs=2,
        wr=16,
        rtp=5,
        rfc=260,
        refi=3900,
        origins=(
            ("rtp rtrs", f"{_DRAMSIM3}, its defaults: the file does not state them"),
            ("ccd_s", "the burst: DRAMsim3's file says 1, which the data bus overrules"),
            (
                "",
                (
                    f"{_DRAMSIM3}, HBM2_8Gb_x128.ini: one 128-bit legacy channel of eight, "
                    "32 GB/s; tFAW of 30 ns is pessimistic (Ramulator: 15 ns)"
                ),
            ),
        ),
    ),
    partial(
        DramPart,
        name="HBM2-PC",
        stream_permille=889,
        controller="window",
        clock_ps=1000,
        burst_bytes=32,
        page_bytes=1024,
        rows=65536,
        bank_groups=4,
        banks_per_group=4,
        pseudo_channels=2,
        dual_command=True,
        burst=2,
        read_latency=14,
        write_latency=5,
        rcd_read=14,
        rcd_write=12,
        rp=14,
        ras=34,
        rrd_s=4,
        rrd_l=4,
        faw=15,
        ccd_s=2,
        ccd_l=4,
        ccd_l_write=4,
        wtr_s=6,
        wtr_l=8,
        rtrs=2,
        wr=16,
        rtp=5,
        rfc=350,
        refi=3900,
        origins=(
            ("rrd_s rrd_l faw rfc refi", f"{_RAMULATOR}, tables of JESD235D, 8 Gb in hbm2.py"),
            ("rtrs", f"{_RAMULATOR}, read to write nCL + nBL + 2 - nCWL"),
            ("", f"{_RAMULATOR}, preset HBM2_2000Mbps: one channel as two 64-bit pseudo channels"),
        ),
    ),
    partial(
        DramPart,
        name="HBM2E",
        stream_permille=843,
        controller="window",
        clock_ps=625,
        burst_bytes=32,
        page_bytes=1024,
        rows=65536,
        bank_groups=4,
        banks_per_group=4,
        pseudo_channels=2,
        dual_command=True,
        burst=2,
        read_latency=23,
        write_latency=8,
        rcd_read=23,
        rcd_write=20,
        rp=23,
        ras=55,
        rrd_s=7,
        rrd_l=7,
        faw=24,
        ccd_s=2,
        ccd_l=4,
        ccd_l_write=4,
        wtr_s=10,
        wtr_l=13,
        rtrs=2,
        wr=26,
        rtp=8,
        rfc=560,
        refi=6240,
        origins=(
            (
                "",
                (
                    "assumption: the nanoseconds of HBM2-PC at 3.2 Gb/s per pin (JESD235D fixes "
                    "core timings in ns), rounded up to clocks of 0.625 ns; neither simulator "
                    "ships HBM2E"
                ),
            ),
        ),
    ),
    partial(
        DramPart,
        name="HBM3",
        stream_permille=838,
        controller="window",
        clock_ps=625,
        burst_bytes=32,
        page_bytes=1024,
        rows=16384,
        bank_groups=4,
        banks_per_group=4,
        pseudo_channels=2,
        dual_command=True,
        burst=2,
        read_latency=20,
        write_latency=10,
        rcd_read=31,
        rcd_write=15,
        rp=26,
        ras=45,
        rrd_s=4,
        rrd_l=5,
        faw=24,
        ccd_s=2,
        ccd_l=4,
        ccd_l_write=4,
        wtr_s=7,
        wtr_l=10,
        rtrs=8,
        wr=33,
        rtp=9,
        rfc=416,
        refi=6240,
        origins=(
            ("rfc", f"{_RAMULATOR}, table of JESD238, 4 Gb per channel in hbm3.py"),
            ("rtrs", f"{_RAMULATOR}, nRTW of 20 clocks, which is nCL + nBL + 8 - nCWL"),
            ("", f"{_RAMULATOR}, preset HBM3_6400Mbps, HBM3_4Gb: two 32-bit pseudo channels"),
        ),
    ),
)

_DDR4: Final = next(make for make in _ALL if make.keywords["name"] == "DDR4-3200x64")
_TWO_RANKS: Final = partial(_DDR4, name="DDR4-3200x64-2R", ranks=2, stream_permille=950)
_MAKES: Final = {make.keywords["name"]: make for make in (*_ALL, _TWO_RANKS)}


class _Parts(Mapping[str, DramPart]):
    """The parts, each made and checked when it is first asked for."""

    def __init__(self) -> None:
        self._made: dict[str, DramPart] = {}

    def __getitem__(self, name: str) -> DramPart:
        if name not in self._made:
            self._made[name] = _MAKES[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in _MAKES

    def __iter__(self) -> Iterator[str]:
        return iter(_MAKES)

    def __len__(self) -> int:
        return len(_MAKES)


PARTS: Final[Mapping[str, DramPart]] = _Parts()
"""Parts by name."""
