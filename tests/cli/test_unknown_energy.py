"""Accelerators that no file gives energies: they run, and refuse at once what needs them."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.importers.test_scalesim import SHIPPED

BARE = """architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: DRAM, class: DRAM, attributes: {word-bits: 16}}
    subtree:
    - name: chip
      local:
      - {name: GLB, class: SRAM, attributes: {depth: 8192, width: 64, word-bits: 16}}
      subtree:
      - name: PE[0..15]
        local:
        - {name: spad, class: regfile, attributes: {depth: 64, width: 16, word-bits: 16, meshX: 4}}
        - {name: mac, class: intmac, attributes: {datawidth: 16, meshX: 4}}
"""
GEMM = "--workload gemm --shape M=16,N=16,K=16"


@pytest.fixture(params=["cfg", "yaml"])
def hw(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"bare.{request.param}"
    path.write_text(SHIPPED if request.param == "cfg" else BARE)
    return path


@pytest.mark.parametrize("objective", ["edp", "energy"])
@pytest.mark.parametrize("command", ["run", "run --dry-run", "map", "compare"])
def test_an_objective_that_needs_energies_is_refused_at_once(
    cli: Call, hw: Path, command: str, objective: str
) -> None:
    verb, *dry = command.split()
    result = cli(" ".join([verb, "--hw", str(hw), GEMM, "--objective", objective, *dry]))
    assert result.exit_code == 2
    assert "bare gives no energies: energy.mac_pj" in result.output
    assert "energy.dram_pj_per_byte" in result.output


@pytest.mark.parametrize("objective", ["", "--objective power", "--objective energy"])
def test_explore_refuses_edp_which_is_its_default(cli: Call, hw: Path, objective: str) -> None:
    load = "--workload gemm~shape=M=16,N=16,K=16"
    said = cli.refused(f"explore --hw {hw} {load} --axis sfu.lanes=8,16 {objective}")
    assert "bare gives no energies" in said


def test_fronts_of_energy_are_refused(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "bare.cfg"
    path.write_text(SHIPPED)
    said = cli.refused(f"compare --hw {path} {GEMM} --pareto energy,cycles")
    assert "bare gives no energies" in said


def test_what_a_choice_gave_up_is_told_without_energies(cli: Call, tmp_path: Path) -> None:
    path = tmp_path / "bare.cfg"
    path.write_text(SHIPPED.replace("CALC", "USER"))
    line = f"--hw {path} --workload gemm --shape M=64,K=300,N=77 --set within=20%"
    (told,) = (one for one in cli.printed(f"run {line}").splitlines() if "chosen within" in one)
    assert "cycles, -" in told
    assert "energy" not in told
    assert told in cli.printed(f"compare {line}")


def test_energies_that_are_given_are_used(cli: Call, tmp_path: Path) -> None:
    """A node prices what is on the chip, a number the DRAM: 1,536 bytes (3 x 16 x 16 of int16)."""
    path = tmp_path / "bare.cfg"
    path.write_text(SHIPPED)
    given = "--set energy.node=45nm --set energy.dram_pj_per_byte=10 --set bytes-per-element=2"
    found = cli.json(f"run --hw {path} {GEMM} {given} --set objective=edp")
    assert found["energy_pj"]["dram"] == 15_360
    assert found["energy_pj"]["mac"] > 0
