"""What `--sweep` reads, what it refuses, and that a point is what a file with that value gives."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from simaccel.cli.experiment_options import ExperimentOptions
from simaccel.cli.lists import WantedRows
from simaccel.cli.output import OutputFiles
from simaccel.cli.search_options import SearchOptions
from simaccel.cli.sweep import MOST_POINTS, read_sweeps, require_once, swept_points
from simaccel.cli.workload_options import WorkloadOptions
from simaccel.errors import InputError
from simaccel.importers.accelerators import load_accelerator
from simaccel.study.parameters import PARAMETERS
from simaccel.study.space import Settings
from simaccel.workload import build, gemm, parse_workload
from simaccel.workload.building import WorkloadSizes
from simaccel.workload.tensors import CLASSES
from tests.cli.conftest import Call
from tests.refusals import faults_of, refusal_of

REPOSITORY = Path(__file__).parents[2]
ASKED = ExperimentOptions("edge", (), WorkloadOptions("bert"))


def swept(text: str, asked: ExperimentOptions = ASKED) -> Settings:
    return read_sweeps((text,), asked)[0]


def numbers(text: str) -> list[int]:
    """Give the first value of each point."""
    return [int(next(iter(one.fields.values()))) for one in swept(text)]


def texts(text: str) -> list[str]:
    return [one.text for one in swept(text)]


def refused(*sweeps: str, asked: ExperimentOptions = ASKED) -> list[str]:
    return [str(one) for one in faults_of(read_sweeps, sweeps, asked)]


def test_sizes_of_a_shape_are_swept(cli: Call) -> None:
    """Each row is the run of that shape alone."""
    alone = [
        cli.json(f"run --hw toy --workload gemm --shape M={m},K=7,N=5 --dataflow naive")["cycles"]
        for m in (3, 9)
    ]
    line = "--hw toy --workload gemm --shape M=1,K=7,N=5 --dataflow naive"
    swept = cli.json(f"compare {line} --sweep workload.M=3,9")
    assert [one["cycles"] for one in swept] == alone
    explored = cli.json(f"explore {line} --axis workload.M=3,9")
    assert {each["cycles"] for each in explored["designs"]} == {*alone}


def test_a_section_is_swept_by_the_names_of_parts_and_accelerators(cli: Call) -> None:
    """As `--set` reads them; different parts, so different cycles."""
    size, names = "--workload gemm --shape M=9,K=7,N=5 --dataflow naive", ("HBM2", "2xHBM2", "edge")
    rows = cli.json(f"compare --hw toy {size} --sweep dram={','.join(names)} --jobs 1")
    each = [cli.json(f"run --hw toy {size} --set dram={name}")["cycles"] for name in names]
    assert [row["cycles"] for row in rows] == each
    assert len(set(each)) > 1


@given(
    first=st.integers(1, 2**20), factor=st.integers(2, 9), times=st.integers(0, 6), data=st.data()
)
def test_a_geometric_sweep_multiplies(
    first: int, factor: int, times: int, data: st.DataObject
) -> None:
    points = [first * factor**i for i in range(times + 1)]
    last = data.draw(st.integers(points[-1], points[-1] * factor - 1))
    assert numbers(f"seq-len={first}:{last}:x{factor}") == points


@given(first=st.integers(0, 2**20), step=st.integers(1, 2**19), count=st.integers(1, MOST_POINTS))
def test_an_arithmetic_sweep_adds(first: int, step: int, count: int) -> None:
    last = first + (count - 1) * step + (step - 1) // 2
    points = [first + i * step for i in range(count)]
    assert numbers(f"dram-latency={first}:{last}:+{step}") == points


@given(sides=st.lists(st.integers(1, 2**20), min_size=1, unique=True))
def test_a_list_is_taken_as_it_is(sides: list[int]) -> None:
    assert numbers(f"batch={','.join(map(str, sides))}") == sides


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("buffer=64KiB:1MiB:x4", ["64 KiB", "256 KiB", "1 MiB"]),
        ("buffer = 1 MiB : 2 MiB : +512 KiB", ["1 MiB", "1536 KiB", "2 MiB"]),
        ("buffer=0.5KiB,1000", ["512 B", "1000 B"]),
        ("dram-bandwidth=25GB/s:0.1TB/s:x2", ["25 GB/s", "50 GB/s", "100 GB/s"]),
        ("buffer-bandwidth=1TB/s,2TB/s", ["1 TB/s", "2 TB/s"]),
        ("dram-latency=0:100:+50", ["0", "50", "100"]),
        ("clock=500MHz:1GHz:+250MHz", ["500 MHz", "750 MHz", "1 GHz"]),
        ("array=16:64:x2", ["16x16", "32x32", "64x64"]),
        ("array=16,32x64,64x32", ["16x16", "32x64", "64x32"]),
        ("seq-len=512:512:x2", ["512"]),
    ],
)
def test_points_have_units(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "log"),
    [
        ("buffer=1KiB:2KiB:x2", True),
        ("buffer=1KiB:1GiB:+512MiB", False),
        ("buffer=1KiB,8KiB", True),
        ("buffer=8KiB,1025", False),
        ("dram-latency=0,100", False),
    ],
)
def test_what_multiplies_has_a_logarithmic_axis(text: str, log: bool) -> None:  # noqa: FBT001 - a case
    assert [one.axis.log for one in swept(text)] == [log, log]


def test_nothing_given_is_no_sweep() -> None:
    assert read_sweeps((), ASKED) == ()


def test_a_thousand_points_are_allowed() -> None:
    assert len(swept("seq-len=1:1000:+1")) == MOST_POINTS
    many = ",".join(map(str, range(1, 1002)))
    (message,) = refused(f"seq-len={many}")
    assert message.endswith("allowed: at most 1,000 points; these are 1,001")


def test_sweeps_are_combined(cli: Call) -> None:
    """Each row is the run of both values alone; the last sweep varies fastest."""
    line = "--hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive"
    rows = cli.json(f"compare {line} --sweep dram-latency=0,9 --sweep workload.M=3,9")
    pairs = [(row["dram_latency_cycles"], row["M"]) for row in rows]
    assert pairs == [(0, 3), (0, 9), (9, 3), (9, 9)]
    alone = [
        cli.json(f"run {line.replace('M=9', f'M={m}')} --set dram.latency_cycles={latency}")
        for latency, m in pairs
    ]
    assert [row["cycles"] for row in rows] == [row["cycles"] for row in alone]


@pytest.mark.parametrize(
    ("text", "asked", "message"),
    [
        (
            "seq-len=1,2",
            ExperimentOptions("edge", (), WorkloadOptions("bert", seq_len="7,8")),
            "--sweep: got 'seq-len'; allowed: nothing with --seq-len, which sets seq_len",
        ),
        (
            "batch=1,2",
            ExperimentOptions("edge", (), WorkloadOptions("bert", batch="7")),
            "--sweep: got 'batch'; allowed: nothing with --batch, which sets batch",
        ),
        (
            "array=16,32",
            ExperimentOptions("edge", ("clock_hz=7 Hz", "array.cols=7"), WorkloadOptions("bert")),
            "--sweep: got 'array'; allowed: nothing with --set array.cols, which sets array.cols",
        ),
    ],
)
def test_what_the_sweep_decides_is_not_given_twice(
    text: str, asked: ExperimentOptions, message: str
) -> None:
    assert refused(text, asked=asked) == [f"command line: {message}"]
    both = refused(f"{text.partition('=')[0]}=0,0", asked=asked)
    assert both[-1] == f"command line: {message}"
    assert "got '0'" in both[0]


def test_what_a_workload_is_given_is_no_axis() -> None:
    said = "got 'batch'; allowed: nothing with --workload 'bert batch=4', which sets batch"
    with pytest.raises(InputError, match=said):
        require_once("--axis", ["batch=1,2"], {}, (), ["gpt2", "bert batch=4"])
    require_once("--axis", ["batch=1,2"], {}, (), ["bert seq-len=4"])


def test_other_options_stand_beside_a_sweep() -> None:
    asked = ExperimentOptions(
        "edge", ("array.rows=7",), WorkloadOptions("bert", seq_len="7", batch="8")
    )
    assert len(swept("buffer=1,2", asked)) == 2


VALUES: dict[str, tuple[str, dict[str, dict[str, object] | object]]] = {
    "buffer": ("96KiB", {"buffer": {"capacity_bytes": "96 KiB"}}),
    "buffer-bandwidth": (
        "2TB/s",
        {"buffer": {"read_bytes_per_second": "2 TB/s", "write_bytes_per_second": "2 TB/s"}},
    ),
    "dram-bandwidth": ("7GB/s", {"dram": {"bandwidth_bytes_per_second": "7 GB/s"}}),
    "dram-latency": ("9", {"dram": {"latency_cycles": 9}}),
    "array": ("16x48", {"array": {"rows": 16, "cols": 48}}),
    "clock": ("1GHz", {"clock_hz": "1 GHz"}),
    "seq-len": ("48", {}),
    "batch": ("5", {}),
    "precision": ("int8", {"precision": dict.fromkeys(CLASSES, "int8")}),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_point_is_what_a_file_with_this_value_gives(name: str, tmp_path: Path) -> None:
    text, changes = VALUES[name]
    document: dict[str, Any] = yaml.safe_load((REPOSITORY / "hwconfigs/edge.yaml").read_text())
    document["dma"] = {"in_queues": "single"}
    before = tmp_path / "before.yaml"
    before.write_text(yaml.safe_dump(document))
    for section, change in changes.items():
        if isinstance(change, dict):
            document[section] = document.get(section, {}) | change
        else:
            document[section] = change
    file = tmp_path / "edge.yaml"
    file.write_text(yaml.safe_dump(document))
    sizes: WorkloadSizes = {"scope": "la", "bytes_by_tensor": {"Q": 1}, "seq_len": 64, "batch": 2}
    expected = sizes | cast("WorkloadSizes", {} if changes else {name.replace("-", "_"): int(text)})
    (point,) = swept_points(
        [swept(f"{name}={text}")], [build("bert", **sizes)], load_accelerator(before)
    )
    assert point.accelerator == load_accelerator(file)
    assert (point.accelerator == load_accelerator(before)) == (not changes)
    wanted = build("bert", **expected)
    assert point.workload == wanted
    assert point.workload.parameters == wanted.parameters
    assert point.settings[0].axis.name == name


def test_a_workload_of_sizes_is_swept_like_a_model() -> None:
    document = {"kind": "attention", "hidden": 6, "heads": 3, "head_size": 5, "ff_size": 7}
    before = parse_workload({**document, "batch": 2, "seq_len": 3})
    (point,) = swept_points([swept("seq-len=9")], [before], load_accelerator("toy"))
    assert point.workload == parse_workload({**document, "batch": 2, "seq_len": 9})


def test_formats_are_swept_where_the_accelerator_gives_them(cli: Call) -> None:
    """7 x 5 elements of B are read once, 9 x 5 of C written once, of 1 or 2 bytes each."""
    line = "compare --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive"

    def moved(options: str) -> list[tuple[int, int]]:
        every = [row["bytes"]["dram"] for row in cli.json(f"{line} {options}")]
        return [(dram["read"]["B"], dram["write"]["C"]) for dram in every]

    assert moved("--sweep precision=int8,bf16") == [(35, 45), (70, 90)]
    beside = "--precision weights=int8"
    assert moved(f"{beside} --sweep precision=int8,bf16") == [(35, 45), (35, 90)]


def test_an_impossible_value_is_refused_as_in_a_file() -> None:
    sweep = swept("array=512,1024")
    workload, edge = build("bert", batch=1, seq_len=8), load_accelerator("edge")
    swept_points([sweep[:1]], [workload], edge)
    said = refusal_of(swept_points, [sweep], [workload], edge)
    assert said == (
        "--sweep array=1024x1024: buffer.capacity_bytes: got 524288; "
        "allowed: at least 2 MiB, one 2-byte operand of a 1024 x 1024 fold"
    )


def test_a_workload_without_the_parameter_is_refused() -> None:
    sweep = swept("seq-len=9")
    said = refusal_of(swept_points, [sweep], [gemm(m=1, k=2, n=3)], load_accelerator("toy"))
    assert said == (
        "command line: --sweep: got 'seq-len'; allowed: a parameter of a workload; "
        "one of B, K, M, N, kind"
    )


@pytest.mark.parametrize(
    ("sweep", "same"),
    [
        ("dram.latency_cycles=0,9", "--sweep dram-latency=0,9"),
        ("array.rows=2,8", "--hw toy"),
        ("stationarity=ws,os", "--set stationarity=ws,os"),
        ("dataflow=naive,flex", "--dataflow naive,flex"),
        ("pipeline=false,true", "--hw toy"),
    ],
)
def test_every_axis_of_explore_is_swept_by_its_name(cli: Call, sweep: str, same: str) -> None:
    """Utilisation by hand: 9 x 7 x 5 MACs of those that rows x 4 PEs do in all cycles."""
    base = "compare --hw toy --workload gemm --shape M=9,K=7,N=5"
    flow = "" if "dataflow" in sweep else "--dataflow naive"
    found = cli.json(f"{base} {flow} --sweep {sweep}")
    column, _, texts = sweep.partition("=")
    assert [str(one[column.replace(".", "_")]).lower() for one in found] == texts.split(",")
    for one in found:
        pes = 4 * one.get("array_rows", 4)
        assert one["utilisation"] == pytest.approx(9 * 7 * 5 / pes / one["cycles"])
    if same != "--hw toy":
        other = cli.json(f"{base} {flow} {same}")
        assert [one["cycles"] for one in found] == [one["cycles"] for one in other]


def test_degrees_that_chips_dont_have_are_rows_with_the_reason(
    cli: Call, small_model: Path
) -> None:
    pod = "--hw mxu_128 --chips 2 --set links.topology=switch --set links.bytes_per_second=70GB/s"
    model = f"--workload {small_model} --phase decode --kv-len 8 --scope model --dataflow strips"
    command = f"compare {pod} {model} --set links.hop_cycles=9 --set links.pj_per_bit=1 --json"
    swept = json.loads(cli(f"{command} --sweep tensor-parallel=1,2,3").stdout)
    listed = json.loads(cli(f"{command} --set tensor-parallel=1,2,3").stdout)
    figures = ("cycles", "energy_pj", "memories", "problem")
    assert [[one.get(name) for name in figures] for one in swept] == [
        [one.get(name) for name in figures] for one in listed
    ]
    assert "a product of 2 chips" in swept[2]["problem"]


def test_experts_are_spread_as_their_list_spreads_them() -> None:
    links = ("topology=switch", "bytes_per_second=70 GB/s", "hop_cycles=9", "pj_per_bit=1")
    pod = ("chips=2", *(f"links.{one}" for one in links))
    sizes = WorkloadOptions("mixtral-8x7b", phase="decode", kv_len="8", batch="1", scope="model")
    asked = ExperimentOptions("mxu_128", pod, sizes, dataflow="naive", allow_overflow=True)
    degrees = SearchOptions(expert_parallel="1,2")
    listed = replace(asked, workload=sizes.for_experts("1,2"), search=degrees)

    def points(options: ExperimentOptions, *sweep: str) -> list[tuple[str, int | None]]:
        files = OutputFiles({}, force=False, inputs=[])
        wanted = WantedRows(files, sweep, None, (), None, None)
        return [
            (point.workload.fingerprint, point.options.expert_parallel)
            for point in wanted.points(options)
        ]

    swept = points(asked, "expert-parallel=1,2")
    assert swept == points(listed)
    assert [degree for _, degree in swept] == [1, 2]


def test_unlimited_stays_unlimited() -> None:
    sweep = swept("buffer=1MiB")
    free = load_accelerator("edge", ["dram.bandwidth_bytes_per_second=unlimited"])
    (point,) = swept_points([sweep], [build("bert", batch=1, seq_len=8)], free)
    assert point.accelerator.dram.bandwidth_bytes_per_second is None
    assert point.accelerator.buffer.capacity_bytes == 2**20
