"""SCALE-Sim configurations as accelerators."""

import csv
from pathlib import Path

import pytest

from simaccel import conv2d, load_accelerator, simulate
from tests.data_files import data_beside
from tests.refusals import faults_of, refusal_of

DATA = data_beside(__file__)
HERE = Path(__file__).with_name("data")

REPOSITORY = Path(__file__).resolve().parents[2]
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
    assert found.systolic.stationarity == "os"
    assert found.systolic.overlap == "none"
    assert found.precision.by_class == {"weights": "int8", "activations": "int8", "cache": "int8"}
    assert found.buffer.capacity_bytes is found.dram.bandwidth_bytes_per_second is None
    given = load_accelerator(_write(tmp_path, CONFIG.replace("CALC", "USER")))
    assert given.buffer.capacity_bytes == (64 + 32 + 16) * 1024
    small = load_accelerator(tmp_path / "scale.cfg", ["array.rows=8"])
    assert small.array.rows == 8
    assert simulate(conv2d(m=8, c=3, p=6, q=6, r=3, s=3), small).run.cycles > 0


def test_a_dram_by_name_takes_the_place_of_every_interface(tmp_path: Path) -> None:
    path = _write(tmp_path, CONFIG.replace("CALC", "USER"))
    real = load_accelerator(path, ["dram=1 x LPDDR4-3200x32"])
    assert real.memories.by_class() == {}
    assert "the place of all three interfaces" in "".join(real.account.lines())
    named = load_accelerator("edge", ["dram=1 x LPDDR4-3200x32", "clock_hz=1 GHz"])
    assert named.dram.bandwidth_bytes_per_second == real.dram.bandwidth_bytes_per_second
    assert load_accelerator(path).account.entries_of("not taken") == ()


def test_fields_of_the_dram_are_not_those_of_the_weights(tmp_path: Path) -> None:
    path = _write(tmp_path, CONFIG.replace("CALC", "USER"))
    found = load_accelerator(path, {"dram.bandwidth_bytes_per_second": "1 GB/s"})
    assert found.memories.by_class()["weight"].bandwidth_bytes_per_second == 10 * 10**9
    assert "weights keep their interface" in "".join(found.account.lines())
    both = {"memories.weight.latency_cycles": 1, "dram.latency_cycles": 1}
    assert load_accelerator(path, both).account.entries_of("not taken") == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ArrayHeight: 3\n", "a SCALE-Sim configuration: sections with lines NAME: VALUE"),
        ("[general]\na: 1\n", "a section [architecture_presets]"),
        (CONFIG.replace("32\n", "x\n", 1), "architecture_presets.ArrayHeight: got 'x'"),
        (
            CONFIG.replace("32\n", "2000000\n", 1),
            "ArrayHeight: got '2000000'; allowed: a whole number from 1 to 1048576",
        ),
        (CONFIG.replace("ArrayWidth:     16\n", ""), "ArrayWidth: got nothing"),
        (CONFIG.replace("ArrayWidth", "ArrayWdith"), "as ArrayWidth, not ArrayWdith"),
        (CONFIG.replace("CALC", "USER").replace(": 10", ": fast"), "Bandwidth: got 'fast'"),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal_of(load_accelerator, _write(tmp_path, text))


SHIPPED = (HERE / "scalesim_shipped.cfg").read_text(encoding="utf-8")
"""All fields of the configurations that SCALE-Sim 3 ships."""


def _left(tmp_path: Path, text: str) -> list[str]:
    found = load_accelerator(_write(tmp_path, text)).account
    assert len(found.entries) >= text.count(":") - 1
    return [f"{one.name}: {one.macs}" for one in found.entries_of("not taken")]


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ("", "", []),
        ("SparsitySupport : false", "SparsitySupport : true", "sparsity"),
        ("IfmapCustomLayout: False", "IfmapCustomLayout: True", "layout"),
        ("UseRamulatorTrace: False", "UseRamulatorTrace: True", "ramulator"),
        ("MemoryBanks: 1", "MemoryBanks: 1\nIfmapSramSzMB: 4", ["IfmapSramSzMB"]),
        ("[run_presets]", "[power]\nVoltage: 1\n[run_presets]", ["Voltage"]),
        ("CALC", "USER", ["IfmapSRAMBankBandwidth", "FilterSRAMBankBandwidth"]),
        ("CALC", "CALC\nBandwidth: 3", ["Bandwidth"]),
    ],
)
def test_every_field_is_taken_harmless_or_named(
    tmp_path: Path, before: str, after: str, left: object
) -> None:
    banks = [f"SRAMBank{what}" for what in ("Bandwidth", "Num", "Port")]
    expected = {
        "sparsity": [
            *("SparsitySupport", "SparseRep", "OptimizedMapping", "BlockSize"),
            "RandomNumberGeneratorSeed",
        ],
        "layout": [
            "IfmapCustomLayout",
            *(of + bank for of in ("Ifmap", "Filter") for bank in banks),
        ],
        "ramulator": ["ReadRequestBuffer", "WriteRequestBuffer", "UseRamulatorTrace"],
    }
    wanted = expected[left] if isinstance(left, str) else left
    found = _left(tmp_path, SHIPPED.replace(before, after, 1))
    assert [one.partition(": ")[0].partition(".")[2] for one in found] == wanted
    counted = [one for one in found if one.endswith(": None")]
    assert counted == (["sparsity.SparsitySupport: None"] if left == "sparsity" else [])


@pytest.mark.parametrize(("before", "after", "said"), DATA["values"])
def test_values_that_are_none_are_refused(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    text = SHIPPED.replace(before, after, 1)
    assert [
        str(one).count(said) for one in faults_of(load_accelerator, _write(tmp_path, text))
    ] == [1]


def test_interfaces_have_bandwidths_of_their_own(tmp_path: Path) -> None:
    text = SHIPPED.replace("CALC", "USER")
    one = load_accelerator(_write(tmp_path, text))
    three = load_accelerator(_write(tmp_path, text.replace("Bandwidth : 10", "Bandwidth : 3,5,7")))
    for found, weights, others in ((one, 10, 20), (three, 5, 10)):
        assert found.memories.weight is not None
        assert found.memories.weight.bandwidth_bytes_per_second == weights * found.clock_hz
        assert found.dram.bandwidth_bytes_per_second == others * found.clock_hz
        assert found.staging == {"weight": 32 * 1024}
    said = refusal_of(
        load_accelerator, _write(tmp_path, text.replace("Bandwidth : 10", "Bandwidth : 3,5"))
    )
    assert "or three: of IFMAP, filters and OFMAP" in said


def _rows() -> list[dict[str, str]]:
    with (REPOSITORY / "validation/scalesim/scalesim_v3_calc.csv").open() as stream:
        return [row for row in csv.DictReader(stream) if row["status"] == "ok"]


@pytest.mark.parametrize(
    "row", _rows()[:: max(1, len(_rows()) // 12)], ids=lambda row: row["layer"]
)
def test_a_plain_run_has_the_cycles_of_the_tool(tmp_path: Path, row: dict[str, str]) -> None:
    """Runs of SCALE-Sim 3.0.0; it reports the index of the last cycle."""
    rows, cols = row["array"].split("x")
    text = SHIPPED.replace("ArrayHeight: 32", f"ArrayHeight: {rows}")
    text = text.replace("ArrayWidth: 16", f"ArrayWidth: {cols}")
    hw = load_accelerator(_write(tmp_path, text.replace(": ws", f": {row['dataflow']}")))
    topology = tmp_path / "layer.csv"
    topology.write_text(f"Layer,M,N,K,\nlayer,{row['M']},{row['N']},{row['K']},\n")
    assert simulate(topology, hw).run.cycles == int(row["total_cycles_reported"]) + 1


@pytest.mark.parametrize(("dataflow", "cycles"), [("ws", 3450), ("os", 3290), ("is", 5070)])
def test_the_dataflow_of_the_file_is_what_the_array_holds(
    tmp_path: Path, dataflow: str, cycles: int
) -> None:
    """By hand, 16 x 8 PEs, M=100 N=40 K=72: 5 x 5 x 138, 7 x 5 x 94 and 5 x 13 x 78 cycles."""
    text = SHIPPED.replace(": ws", f": {dataflow}").replace(
        ": 32\nArrayWidth: 16", ": 16\nArrayWidth: 8"
    )
    topology = tmp_path / "proj.csv"
    topology.write_text("Layer,M,N,K,\nproj,100,40,72,\n")
    assert simulate(topology, load_accelerator(_write(tmp_path, text))).run.cycles == cycles


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        *((f"SparsitySupport: {no}\nSparseRep: csr", []) for no in ("false", "no", "0")),
        *(
            (f"SparsitySupport: {yes}\nSparseRep: csr", ["SparsitySupport: None", "SparseRep: 0"])
            for yes in ("true", "Yes", "1")
        ),
        ("IfmapCustomLayout: False\nIfmapSRAMBankNum: 10", []),
        (
            "IfmapCustomLayout: True\nIfmapSRAMBankNum: 10",
            ["IfmapCustomLayout: 0", "IfmapSRAMBankNum: 0"],
        ),
    ],
)
def test_switches_among_the_presets_are_switches(
    tmp_path: Path, lines: str, left: list[str]
) -> None:
    preset = "[architecture_presets]\n"
    alone = SHIPPED.partition("[sparsity]")[0].partition("[layout]")[0]
    assert preset in alone
    text = f"{alone}\n[run_presets]\nInterfaceBandwidth: CALC\n"
    found = _left(tmp_path, text.replace(preset, preset + lines + "\n"))
    assert found == [f"architecture_presets.{one}" for one in left]


def test_memories_as_the_first_version_calls_them(tmp_path: Path) -> None:
    text = SHIPPED.replace("CALC", "USER")
    older = text.replace("SramSzkB", "SramSz")
    assert older != text
    found = [load_accelerator(_write(tmp_path, each)) for each in (text, older)]
    assert found[0].buffer == found[1].buffer
    assert found[0].memories == found[1].memories
    assert _left(tmp_path, older) == _left(tmp_path, text)
