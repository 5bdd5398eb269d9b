"""The example plug-in, installed as a user does, adds its names and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from simaccel import build, load_accelerator, simulate
from simaccel.diagnosis.check import check
from simaccel.hardware.presets import list_accelerators
from simaccel.schedulers import DATAFLOWS
from simaccel.workload import PLUGGED, VECTORS, Workload

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    quietly = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-deps")
    command = (sys.executable, "-m", "pip", "install", *quietly, "--no-build-isolation")
    subprocess.run((*command, "--target", str(folder), str(EXAMPLE)), check=True)
    return folder


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.usefixtures("installed")
def test_its_names_stand_beside_those_of_simaccel() -> None:
    assert "micro" in list_accelerators()
    assert [*PLUGGED] == ["autoencoder"]
    assert {*DATAFLOWS} - {*DATAFLOWS.own} == {"directives", "whole"}
    assert [*VECTORS][-1] == "softsign"
    assert DATAFLOWS.plugin_names()["whole"] == "simaccel-example 1.0"


@pytest.mark.usefixtures("installed")
def test_its_four_parts_work_together() -> None:
    workload = build("autoencoder", batch=3)
    assert workload.macs == 2 * 3 * 784 * 64
    result = simulate(workload, "micro", "whole")
    assert [len(group.operators) for group in result.mapping.groups] == [1, 1, 1]
    # every tensor once, two bytes an element
    elements = {"X": 3 * 784, "W1": 784 * 64, "H": 3 * 64, "Z": 3 * 64, "W2": 64 * 784}
    for name, count in elements.items():
        if name not in ("H", "Z"):
            assert result.run.moved["dram_read", name] == 2 * count
    assert result.run.elements == 3 * 64
    compared = check(workload, result.mapping, result.program)
    assert max(one.deviation for one in compared) < 1e-9


@pytest.mark.usefixtures("installed")
def test_its_vector_operator_means_softsign() -> None:
    meaning = VECTORS["softsign"].steps["whole"].meaning
    x = np.array([-1.0, 0.0, 2.0])
    made, _ = meaning([x], 1.0, ())
    assert made is not None
    np.testing.assert_allclose(made, x / (1 + np.abs(x)))


def test_the_command_line_and_its_processes_know_it(site: Path) -> None:
    path = os.pathsep.join((str(site), *filter(None, [os.environ.get("PYTHONPATH")])))
    line = "compare --hw micro --workload autoencoder --dataflow whole,naive --jobs 2 --json"
    ran = subprocess.run(
        (sys.executable, "-m", "simaccel", *line.split()),
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    rows = json.loads(ran.stdout)
    assert [row["dataflow"] for row in rows] == ["whole", "naive"]
    assert all(row["cycles"] > 0 for row in rows)


def test_its_command_runs_beside_those_of_simaccel(site: Path) -> None:
    path = os.pathsep.join((str(site), *filter(None, [os.environ.get("PYTHONPATH")])))
    environment = {**os.environ, "PYTHONPATH": path}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = (sys.executable, "-m", "simaccel", *words)
        return subprocess.run(line, env=environment, check=False, capture_output=True, text=True)

    assert "  macs        Print the MACs of each operator of a workload.\n" in run("--help").stdout
    assert run("macs", "autoencoder").stdout == f"encode {784 * 64}\nsquash 0\ndecode {64 * 784}\n"
    refused = run("macs", "nonsense")
    assert (refused.returncode, refused.stderr[:7]) == (2, "error: ")


def test_without_it_nothing_has_its_names() -> None:
    assert "whole" not in DATAFLOWS
    assert "micro" not in list_accelerators()
    assert isinstance(build("bert", seq_len=8), Workload)
    assert load_accelerator("toy").name == "toy"
