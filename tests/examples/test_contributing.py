"""The recipes of CONTRIBUTING.md work as they stand."""

import math
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from simaccel import gemm, lazy, load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.diagnosis.plain_values import vector_values
from simaccel.files.catalogue import Catalogue
from simaccel.importers.workloads import load_workload
from simaccel.machine.machine import Machine
from simaccel.program.text import parse_program
from simaccel.schedulers import DATAFLOWS
from simaccel.workload import VECTORS, Vector, operand
from simaccel.workload.networks import parse_network
from tests.examples.documents import Block, blocks_of

REPOSITORY = Path(__file__).parents[2]
CONTRIBUTING = REPOSITORY / "CONTRIBUTING.md"


def _block(word: str) -> Block:
    """Find the one block of code that holds a word."""
    (found,) = [one for one in blocks_of(CONTRIBUTING, "python") if word in one.text]
    return found


def _module(word: str) -> types.ModuleType:
    module = types.ModuleType("recipe")
    exec(compile(_block(word).text, str(CONTRIBUTING), "exec"), vars(module))  # noqa: S102 - ours
    return module


def test_the_scheduler_runs_and_passes_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = _module("SCHEDULERS =").SCHEDULERS["uncut"]
    monkeypatch.setitem(DATAFLOWS, "uncut", scheduler)
    _module('"uncut")\n')


def _recipe_file(name: str) -> str:
    """Find the block of YAML that describes a workload of this name."""
    (found,) = [one for one in blocks_of(CONTRIBUTING, "yaml") if f"name: {name}\n" in one.text]
    return found.text


def test_a_network_is_a_file_of_the_catalogue(tmp_path: Path) -> None:
    (tmp_path / "networks").mkdir()
    file = tmp_path / "networks" / "lenet5.yaml"
    file.write_text(_recipe_file("lenet5"), encoding="utf-8")
    network = Catalogue("networks", parse_network, root=tmp_path).find("LeNet-5")
    # LeCun et al., 1998, section II-B: C5 has 48,120 parameters with 120 biases, F6 10,164 with 84
    weights = {name: shape.weights for name, shape in network.layers.items()}
    assert (weights["c5"], weights["f6"]) == (48_120 - 120, 10_164 - 84)
    assert load_workload(file).macs == sum(
        math.prod(shape.ranks.values()) for shape in network.layers.values()
    )


def test_the_vector_operator_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = _module("RELU6 =")
    assert recipe.np is lazy.np  # loaded when it is needed: commands start fast
    monkeypatch.setitem(VECTORS, "relu6", recipe.RELU6)
    vector = Vector("v", "relu6", {"m": 3}, (operand("X m"),), operand("Y m"))
    x = np.array([-1.0, 2.0, 7.0])
    np.testing.assert_allclose(vector_values(vector, {"X": x}), [0.0, 2.0, 6.0])
    tile = "tile X 3 x1 of X[m=3] 2B"
    text = f"program p\n  operator v\n    {tile}\n    sfu relu6 whole X = X over m=3 of v\n"
    run = Machine(load_accelerator("toy"), parse_program(text)).run()
    assert (run.elements, run.moved["buffer_read", "X"], run.moved["buffer_write", "X"]) == (
        3,
        6,
        6,
    )


def test_the_workload_file_runs(tmp_path: Path) -> None:
    file = tmp_path / "two_layers.yaml"
    file.write_text(_recipe_file("two_layers"), encoding="utf-8")
    workload = load_workload(file)
    assert workload.macs == 2 * 6 * 5 * 7
    result = simulate(workload, load_accelerator("toy"), "naive")
    assert len(check(workload, result.mapping, result.program)) == 2


def test_an_accelerator_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "small_npu.yaml"
    file.write_text(_recipe_file("small_npu"), encoding="utf-8")
    accelerator = load_accelerator(file)
    assert (accelerator.name, accelerator.array.pes) == ("small_npu", 256)
    run = simulate(gemm(m=16, k=16, n=16), accelerator, "naive").run
    # three matrices of 512 B at 25.6 GB/s and 800 MHz: 32 B a cycle
    assert run.macs == 4096
    assert run.cycles > 3 * 512 / 32


def test_a_unit_with_a_command_of_its_own_is_six_files(tmp_path: Path) -> None:
    """Its patch of all six, applied to a copy of the package, and what the recipe says of it."""
    (patch,) = blocks_of(CONTRIBUTING, "diff")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "simaccel", tmp_path / "simaccel", ignore=ignored)
    (tmp_path / "hwconfigs").symlink_to(REPOSITORY / "hwconfigs")
    subprocess.run(["git", "apply"], input=patch.text, text=True, cwd=tmp_path, check=True)
    spec = "import doctest, simaccel.hardware.transposer as t; assert doctest.testmod(t) == (0, 1)"
    for script in (_block("transposer Y = X").text, spec):
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    assert len(re.findall(r"^\+\+\+ ", patch.text, re.MULTILINE)) == 6


def test_the_reference_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    assert len(_module("scalesim_v3_calc").runs) == 126


def test_every_file_that_is_named_is_there() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    named = re.findall(r"`([\w.]+/[\w./-]*\.\w+)`", text)
    assert len(named) > 20
    assert [name for name in named if not (REPOSITORY / name).exists()] == []
