"""Sections by name and precisions: what they stand for, and what nobody has."""

import re
from pathlib import Path
from typing import Any

import pytest

from simaccel import simulate
from simaccel.files.schema import leaf_fields
from simaccel.hardware import Accelerator
from simaccel.hardware.area.parts import area_of
from simaccel.hardware.dram.parts import PARTS
from simaccel.hardware.presets import list_accelerators
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.program.text import parse_program
from simaccel.study.documents import accelerator_document
from simaccel.study.placement import place_on
from simaccel.workload import gemm, parse_workload, with_precision
from tests.cli.conftest import Call, cli
from tests.refusals import faults_of, refusal_of

__all__ = ["cli"]
TEN = """\
name: mine
clock_hz: 1 GHz
array: {rows: 8, cols: 16}
buffer: edge
noc: mesh
sfu: {preset: mxu_128, lanes: 64}
dram: 2 x DDR4-3200x64
energy: 7nm
area: 16nm
"""


def _load(folder: Path, text: str) -> Accelerator:
    (folder / "mine.yaml").write_text(text)
    return load_accelerator(folder / "mine.yaml")


def test_nine_lines_are_an_accelerator(tmp_path: Path) -> None:
    """DDR4-3200: 1.6 GHz and 64 bits, so 25.6 GB/s a channel (JESD79-4)."""
    found, edge, tpu = _load(tmp_path, TEN), load_accelerator("edge"), load_accelerator("mxu_128")
    assert found.buffer == edge.buffer
    assert (found.sfu.lanes, found.sfu.latency_cycles) == (64, tpu.sfu.latency_cycles)
    assert found.noc.distribution.topology == found.noc.collection.topology == "mesh"
    assert found.dram.bandwidth_bytes_per_second == 2 * 25_600_000_000 * 948 // 1000
    assert found.dram.capacity_bytes == 2 * 8 * 2**30  # eight devices of 8 Gb a channel
    assert (found.dram.channels, found.dram.part_name) == (2, "DDR4-3200x64")
    assert found.energy.node == "7nm"
    assert found.prices.dram_pj_per_byte == 162.5
    assert area_of(found).by_part["mac"] / found.pes == pytest.approx((1640 + 4184) * 0.07 / 0.242)
    found = load_accelerator(tmp_path / "mine.yaml", ["sfu.lanes=3", "dram.channels=1"])
    assert (found.sfu.lanes, found.dram.channels) == (3, 1)  # overrides come after presets


def test_the_times_of_a_part_are_counted_in_cycles(tmp_path: Path) -> None:
    """DDR4-3200 at 22-22-22: 22 + 22 + 4 clocks of 0.625 ns are 30 ns."""
    assert _load(tmp_path, TEN).dram.latency_cycles == 30
    slow = TEN.replace("1 GHz", "100 MHz")
    assert _load(tmp_path, slow).dram.latency_cycles == 3


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("noc: mesh", "noc: mush", "noc: got 'mush'; allowed: a section, or did you mean 'mesh'?"),
        ("energy: 7nm", "energy: 5nm", "energy: got '5nm'; allowed: a section, or did you mean"),
        ("2 x DDR4-3200x64", "2 x DDR4-3200x65", "dram: got '2 x DDR4-3200x65'; allowed: a se"),
        ("2 x DDR4", "0 x DDR4", "dram: got '0 x DDR4-3200x64'; allowed: a section, or"),
        ("preset: mxu_128", "preset: tpu_v9", "sfu: got 'tpu_v9'; allowed: a section, or did you"),
        ("lanes: 64", "lanse: 64", "sfu.lanse: got 64; did you mean"),
        ("preset: mxu_128", "preset: 3", "sfu.preset: got 3; allowed"),
    ],
)
def test_what_nobody_has_is_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert f"mine.yaml: {said}" in refusal_of(_load, tmp_path, TEN.replace(old, new))


@pytest.mark.parametrize(
    ("setting", "field"),
    [
        ("buffer=1 MiB", "buffer.capacity_bytes"),
        ("buffer=unlimited", "buffer.capacity_bytes"),
        ("dram=50 GB/s", "dram.bandwidth_bytes_per_second"),
        ("array=8x16", "array.rows"),
    ],
)
def test_an_amount_in_place_of_a_section_is_that_of_a_field(setting: str, field: str) -> None:
    said = refusal_of(load_accelerator, "edge", [setting])
    assert said.endswith(f"allowed: a section, or did you mean {field!r}?")


STREAM = """\
program stream
  operator gemm
    tile B 1x{rows}x4096 x1 of B[g=1,k={rows},n=4096] 1B
    load B queue 1
    tile A 1x1x{rows} x1 of A[g=1,m=1,k={rows}] 1B
    tile C 1x1x4096 x1 of C[g=1,m=1,n=4096] 1B
    load A queue 0
    compute C = A B over g=1 m=1 k={rows} n=4096 folds ws
"""


@pytest.mark.parametrize("channels", [1, 2, 5, 8, 32])
@pytest.mark.parametrize("part", PARTS)
def test_a_stream_gets_what_the_part_gives(tmp_path: Path, part: str, channels: int) -> None:
    """16 MiB a channel, one after the other, take what `simaccel dram sequential` says."""
    text = TEN.replace("2 x DDR4-3200x64", f"{channels} x {part}").replace(
        "buffer: edge", "buffer: {preset: edge, capacity_bytes: unlimited}"
    )
    found = _load(tmp_path, text.replace("energy: 7nm", "energy: {node: 7nm, dram_pj_per_byte: 1}"))
    program = parse_program(STREAM.format(rows=4096 * channels))
    run = Machine(found, program).run()
    peak = PARTS[part].peak_bytes_per_second * channels / 10**9
    given = peak * PARTS[part].stream_permille / 1000
    taken = run.engines["dma_in1"].busy  # at 1 GHz
    assert 2**24 * channels / taken == pytest.approx(given, rel=0.003)


def test_hw_new_writes_a_file_that_runs(cli: Call, tmp_path: Path) -> None:
    result = cli("hw new mine")
    assert result.exit_code == 0, result.stderr
    text = (tmp_path / "mine.yaml").read_text()
    own = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(own) == 12
    assert result.stdout.startswith("mine.yaml: change it")
    line = "run --hw mine.yaml --workload gemm --shape M=9,K=7,N=5 --dataflow naive --quiet"
    assert cli(line).exit_code == 0
    assert cli("hw new mine").exit_code == 2
    assert cli("hw new mine --force -o other.yaml").exit_code == 0
    assert cli("hw new mine -o -").stdout == text
    assert cli("hw new mine.yaml -o -").stdout == text


def test_an_accelerator_is_made_of_another_file(tmp_path: Path) -> None:
    """By a path from the file that names it; fields of the nearest file count."""
    (tmp_path / "chips").mkdir()
    base, child = tmp_path / "chips" / "base.yaml", tmp_path / "child.yaml"
    base.write_text("of: edge\narray: {rows: 16, cols: 16}\nsfu: {preset: mxu_128, lanes: 64}\n")
    child.write_text("of: chips/base.yaml\narray: {cols: 8}\nsfu: {latency_cycles: 3}\n")
    found = load_accelerator(child)
    assert (found.name, found.array.rows, found.array.cols) == ("child", 16, 8)
    assert (found.sfu.lanes, found.sfu.latency_cycles) == (64, 3)
    assert found.buffer == load_accelerator("edge").buffer
    base.write_text("of: ../child.yaml\n")
    assert refusal_of(load_accelerator, child) == (
        f"{tmp_path}/chips/base.yaml: of: got '../child.yaml'; allowed: an accelerator or a file "
        "that is not made of this one"
    )
    base.write_text("of: edge\nsfu: egde\n")
    assert "base.yaml: sfu: got 'egde'" in refusal_of(load_accelerator, child)
    base.write_text("kind: gemm\nshape: {M: 3, K: 3, N: 3}\n")
    assert "base.yaml: document: got 'kind'" in refusal_of(load_accelerator, child)
    base.unlink()
    assert "base.yaml: file: got nothing" in refusal_of(load_accelerator, child)


@pytest.mark.parametrize(("number", "n_bytes"), [("fp16", 2), ("fp32", 4), ("int8", 1)])
def test_sums_set_the_width_of_the_accumulator(number: str, n_bytes: int) -> None:
    found = load_accelerator("tpu_v1", [f"precision.sums={number}"])
    assert found.systolic.accumulator is not None
    assert found.systolic.accumulator.bytes_per_element == n_bytes
    assert Accelerator.model_validate(found.model_dump()) == found
    assert accelerator_document(found)["precision"]["sums"] == number


def test_without_a_section_there_is_none_in_the_document() -> None:
    document = load_accelerator("toy").model_dump()
    del document["precision"]
    assert "precision" not in accelerator_document(Accelerator.model_validate(document))


@pytest.mark.parametrize(
    ("hw", "field", "allowed"),
    [
        ("edge", "sums=fp32", "nothing without array.accumulator"),
        ("eyeriss_like", "sums=fp32", "nothing without array.accumulator"),
        ("tpu_v1", "sums=int4", "a number of whole bytes"),
        ("tpu_v1", "weights=int3", "did you mean 'int32'?"),
    ],
)
def test_what_is_no_precision_is_refused(hw: str, field: str, allowed: str) -> None:
    (fault,) = faults_of(load_accelerator, hw, [f"precision.{field}"])
    assert fault.field == f"precision.{field.partition('=')[0]}"
    assert allowed in fault.allowed


def test_a_workload_takes_what_it_does_not_say_itself() -> None:
    on = load_accelerator("toy", ["precision.weights=int4", "precision.activations=int8"])
    found = place_on(with_precision(gemm(m=3, k=5, n=7), {"activations": "fp32"}), on)
    assert {name: one.bits for name, one in found.tensors.items()} == {"A": 32, "B": 4, "C": 32}
    assert place_on(found, on) is found
    assert place_on(found, load_accelerator("toy")) is found


@pytest.mark.parametrize(
    ("said", "bits"),
    [
        ({}, (8, 8, 8)),
        ({"bytes_per_element": 2}, (16, 16, 16)),
        ({"bytes_by_tensor": {"C": 4}}, (8, 8, 32)),
        ({"bytes_per_element": 1, "bytes_by_tensor": {"B": 2}}, (8, 16, 8)),
    ],
)
def test_what_somebody_says_goes_before_an_accelerator(
    said: dict[str, Any], bits: tuple[int, ...]
) -> None:
    found = place_on(gemm(m=3, k=5, n=7, **said), load_accelerator("edge_tpu"))
    assert tuple(found.tensors[name].bits for name in "ABC") == bits
    again = parse_workload(dict(found.parameters))
    assert tuple(again.tensors[name].bits for name in "ABC") == bits


def test_every_accelerator_that_is_shipped_has_numbers() -> None:
    for name in list_accelerators():
        assert set(load_accelerator(name).precision.by_class) == {"weights", "activations", "cache"}


def test_chips_of_int8_run_int8() -> None:
    """TPU v1: 92 TOPS at 700 MHz; bf16 operands would take each MAC twice and more."""
    done = simulate("tpu_v1_mlp0", "tpu_v1", "strips")
    assert done.run.native_macs == done.run.macs
    assert {one.bits for one in done.workload.tensors.values()} == {8}


def test_the_guide_explains_fields_that_there_are() -> None:
    guide = Path(__file__).parents[2] / "docs" / "guide" / "accelerators.md"
    rows = re.findall(
        r"^\| `(\w+)`[^|]*\| ([^|]+) \|", guide.read_text(encoding="utf-8"), re.MULTILINE
    )
    fields = leaf_fields(Accelerator)
    assert {section for section, _ in rows} > {"array", "dram", "compiler", "energy"}
    for section, text in rows:
        named = {*re.findall(r"`(\w+)`:", text), *re.findall(r"`(\w*_\w+)`", text)}
        for name in named - {"per_tensor"}:  # which is a value
            assert any(one.startswith(f"{section}.") and name in one.split(".") for one in fields)
