"""SCALE-Sim configurations as accelerators."""

from pathlib import Path

import pytest

from simaccel import conv2d, load_accelerator, simulate
from simaccel.errors import InputError

CONFIG = """[general]
run_name = scale_example_run_32x32_os

[architecture_presets]
ArrayHeight:    32
ArrayWidth:     16
IfmapSramSzkB:    64
FilterSramSzkB:   32
OfmapSramSzkB:    16
IfmapOffset:    0
Bandwidth : 10
Dataflow : os

[run_presets]
InterfaceBandwidth: CALC
"""


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "scale.cfg"
    path.write_text(text)
    return path


def test_sizes_and_bandwidth_are_taken_over(tmp_path: Path) -> None:
    found = load_accelerator(_write(tmp_path, CONFIG))
    assert (found.array.rows, found.array.cols) == (32, 16)
    assert found.buffer.capacity_bytes == (64 + 32 + 16) * 1024
    assert found.dram.bandwidth_bytes_per_second is None
    given = load_accelerator(_write(tmp_path, CONFIG.replace("CALC", "USER")))
    assert given.dram.bandwidth_bytes_per_second == 10 * 2 * found.clock_hz
    small = load_accelerator(tmp_path / "scale.cfg", ["array.rows=8"])
    assert small.array.rows == 8
    assert simulate(conv2d(m=8, c=3, p=6, q=6, r=3, s=3), small).run.cycles > 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ArrayHeight: 3\n", "a SCALE-Sim configuration: sections with lines NAME: VALUE"),
        ("[general]\na: 1\n", "a section [architecture_presets]"),
        (CONFIG.replace("32\n", "x\n", 1), "architecture_presets.ArrayHeight: got 'x'"),
        (CONFIG.replace("ArrayWidth:     16\n", ""), "ArrayWidth: got nothing"),
        (CONFIG.replace("CALC", "USER").replace(": 10", ": fast"), "Bandwidth: got 'fast'"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load_accelerator(_write(tmp_path, text))
    assert said in str(caught.value)
