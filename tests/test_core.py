"""The core alone answers how many cycles a mapping takes, and a reader finds the way through it."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from click.testing import CliRunner

from simaccel import gemm, load_accelerator, simulate
from simaccel.cli import main
from simaccel.errors import ABSENT, Fault, InputError, SimaccelError
from simaccel.program.exchanges import lower_pod
from simaccel.run import run as page
from simaccel.run.run import run_mapping
from tests.test_architecture import CORE, REPOSITORY

FOREIGN = "click rich matplotlib onnx distributed lark pandas pyarrow platformdirs networkx"
ALONE = f"""
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top, *rest = name.split(".")
        if top in {FOREIGN.split()} or (top == "simaccel" and rest and rest[0] not in CORE):
            raise ModuleNotFoundError(name)

CORE = {sorted(CORE)}
sys.meta_path.insert(0, Refuse())

from simaccel.files.schema import read_yaml
from simaccel.hardware.load import build_accelerator, own_document
from simaccel.hardware.presets import accelerator_files
from simaccel.mapping.files import mapping_text
from simaccel.mapping.text import parse_tree
from simaccel.mapping.tree import Group, Mapping, WorkloadReference
from simaccel.program.text import program_text
from simaccel.run.run import run_mapping
from simaccel.trace import TraceHeader, TraceReader, TraceWriter, program_sites
from simaccel.workload.products import gemm

path = accelerator_files()["toy"]
toy = build_accelerator(own_document(read_yaml(path, "an accelerator")[0], path)[0], path, (), ())
workload = gemm(m=9, k=7, n=5)
tree = parse_tree("loop m 3\\nkeep A buffer, B buffer, C buffer\\ndo gemm array ws")
group = Group(operators=("gemm",), tree=tree)
reference = WorkloadReference(workload.name, workload.fingerprint)
mapping = Mapping(workload=reference, dataflow="mine", body=(group,))
writers = []

def listen(mapping, program, walks):
    texts = dict(mapping=mapping_text(mapping), program=program_text(program))
    header = TraceHeader(**texts, sites=program_sites(program, toy, walks))
    writers.append(TraceWriter(sys.argv[1], header).__enter__())
    return writers[0]

result = run_mapping(workload, toy, mapping, listener=listen)
run = result.run
writers[0].finish(run.cycles, run.engines, {{}}, run.served_cycles)
writers[0].__exit__(None, None, None)
with TraceReader.open(sys.argv[1]) as trace:
    trace.check(accounts=True)
moved = sum(n for (level, _), n in run.moved.items() if level.startswith("dram"))
print(run.macs, moved, result.prediction.bound_cycles <= run.cycles == trace.cycles)
"""


def test_the_core_runs_a_gemm_with_a_trace_on_its_own(tmp_path: Path) -> None:
    """By hand: 9 x 7 x 5 MACs; 9 x 7 + 7 x 5 + 9 x 5 elements of two bytes, each moved once."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "t.h5")],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("315 286 True\n", "")


def _entered(run: Callable[[], object]) -> tuple[int, int]:
    """Return how many files and functions of simaccel a call enters."""
    codes: set[tuple[str, int]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = code.co_flags & 1 and not code.co_name.startswith("<")
        if (
            event == "call"
            and is_function
            and code.co_filename.startswith(f"{REPOSITORY}/simaccel")
        ):
            codes.add((code.co_filename, code.co_firstlineno))

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return len({file for file, _ in codes}), len(codes)


def test_a_run_leads_a_reader_through_few_files_and_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A small GEMM with its mapping, the second time, as users run it."""
    monkeypatch.setattr(page, "lower_pod", lower_pod)
    workload, edge = gemm(m=64, n=64, k=64), load_accelerator("edge")
    mapping = simulate(workload, edge, "flex").whole
    run_mapping(workload, edge, mapping)
    files, functions = _entered(lambda: run_mapping(workload, edge, mapping))
    assert (files <= 100, functions <= 650) == (True, True), (files, functions)


def test_a_command_with_its_search_leads_through_few_files_and_functions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same GEMM from the command line, the second time, without stored mappings."""
    monkeypatch.setenv("SIMACCEL_CACHE", "off")
    monkeypatch.setattr(page, "lower_pod", lower_pod)
    command = ["run", "--hw", "edge", "--workload", "gemm", "--shape", "M=64,N=64,K=64"]
    first = CliRunner().invoke(main, command)
    assert (first.exit_code, first.output.splitlines()[0][:12]) == (0, "gemm on edge")
    files, functions = _entered(lambda: CliRunner().invoke(main, command))
    assert (files <= 160, functions <= 1200) == (True, True), (files, functions)


def test_input_errors_print_a_line_for_each_fault() -> None:
    error = InputError([Fault("w.yaml", "a.b", "x\ny", "text"), Fault("--n", "n", ABSENT, "1")])
    assert str(error).splitlines() == [
        "w.yaml: a.b: got 'x\\ny'; allowed: text",
        "--n: n: got nothing; allowed: 1",
    ]
    assert isinstance(error, SimaccelError)
    assert error.exit_code == 2


def test_input_errors_survive_pickling() -> None:
    error = InputError([Fault("w.yaml", "a", 1, "2")])
    assert pickle.loads(pickle.dumps(error)).faults == error.faults  # noqa: S301 - its own data


def test_long_values_are_cut() -> None:
    assert str(Fault("f", "a", "x" * 500, "y")) == f"f: a: got '{'x' * 76}...; allowed: y"
    parts = str(Fault("f" * 5000, "a" * 5000, 1, "y" * 5000)).split("...")
    assert parts == ["f" * 257, ": " + "a" * 117, ": got 1; allowed: " + "y" * 797, ""]
