"""A run with its mapping given needs no library of faces, importers or figures."""

import subprocess
import sys
from pathlib import Path

from simaccel import gemm, load_accelerator, simulate
from simaccel.mapping.files import mapping_text
from simaccel.trace import TraceReader

OTHERS = ("click", "rich", "matplotlib", "onnx", "distributed", "lark", "pandas", "pyarrow")
SCRIPT = """
import importlib.abc, sys

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {others}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
from pathlib import Path
from simaccel import gemm, load_accelerator, record
from simaccel.mapping.files import load_mapping

workload = gemm(64, 64, 64)
mapping = load_mapping(Path({mapping!r}), workload)
result = record({trace!r}, workload, load_accelerator("edge"), mapping)
print(result.run.cycles, result.run.macs)
"""


def test_a_gemm_with_a_trace_runs_without_the_libraries_of_others(tmp_path: Path) -> None:
    """64 x 64 x 64 MACs; on 32 x 32 PEs no fewer than 256 cycles."""
    workload = gemm(64, 64, 64)
    mapping = simulate(workload, load_accelerator("edge"), "naive").mapping
    (tmp_path / "naive.yaml").write_text(mapping_text(mapping), encoding="utf-8")
    files = {"mapping": str(tmp_path / "naive.yaml"), "trace": str(tmp_path / "run.h5")}
    script = SCRIPT.format(others=set(OTHERS), **files)
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    cycles, macs = map(int, ran.stdout.split())
    assert macs == 64**3
    assert cycles >= 64**3 / 32**2
    with TraceReader.open(files["trace"]) as trace:
        assert trace.cycles == cycles
