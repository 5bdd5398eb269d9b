"""Accelerators, workloads, topologies and mappings with one thing wrong: some 1,700 of them."""

from collections.abc import Callable, Sequence
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from simaccel.cli import main
from tests.data_files import data_beside
from tests.draws import DRAWS, SEED
from tests.robust.mutate import mutants

Attempt = Callable[..., str]

REPOSITORY = Path(__file__).parents[2]
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
SHARE = 4 if DRAWS > 1 else 16
"""One in so many mutants is tried, for each SIMACCEL_SEED others."""
GEMM = ("--workload", "gemm", "--shape", "M=9,K=7,N=5")
WORKLOADS: dict[str, dict[str, Any]] = data_beside(__file__)


def _try_all(document: Any, attempt: Attempt, line: Sequence[str]) -> tuple[int, int]:  # noqa: ANN401
    """Try some of a document's mutants; give how many were tried and how many refused."""
    tried = refused = 0
    Path("mine.yaml").touch()
    for place, mutant in islice(mutants(document), SEED % SHARE, None, SHARE):
        Path("mine.yaml").write_text(yaml.dump(mutant, Dumper=DUMPER), encoding="utf-8")
        said = attempt(*line)
        assert (
            not said or "mine.yaml" in said or "the mapping is for" in said or (" need" in said)
        ), (place, said)
        tried, refused = tried + 1, refused + bool(said)
    return tried, refused


@pytest.mark.parametrize("name", ["toy", "eyeriss_like"])
def test_accelerators(attempt: Attempt, name: str) -> None:
    document = yaml.safe_load((REPOSITORY / "hwconfigs" / f"{name}.yaml").read_text())
    tried, refused = _try_all(document, attempt, ("hw", "show", "mine.yaml", "--json"))
    assert tried > 25
    assert refused > 0.8 * tried


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(attempt: Attempt, name: str) -> None:
    tried, refused = _try_all(WORKLOADS[name], attempt, ("workload", "show", "mine.yaml", "--json"))
    assert tried > 6
    assert refused > 0.5 * tried


@pytest.mark.parametrize(
    "options",
    [
        ("--hw", "toy", *GEMM),
        ("--hw", "toy", "--workload", "bert", "--scope", "la", "--seq-len", "4"),
    ],
)
def test_mappings(attempt: Attempt, options: tuple[str, ...]) -> None:
    CliRunner().invoke(main, ["map", *options, "-o", "mine.yaml"])
    document = yaml.safe_load(Path("mine.yaml").read_text(encoding="utf-8"))
    tried, refused = _try_all(
        document, attempt, ("estimate", *options, "--mapping", "mine.yaml", "--json")
    )
    assert tried > 10
    assert refused > 0.6 * tried


CELLS = ("", "0", "-1", "1.5", "x", "1" * 30, "nan", "1e9", "=1+1", "\x1b", "<b>", "a b", ",", '"')


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (
            "Layer,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides",
            "Conv1,9,9,3,3,3,4,1",
        ),
        ("Layer,M,N,K,", "qkv,12,15,5,"),
    ],
)
def test_topologies(attempt: Attempt, header: str, row: str) -> None:
    Path("mine.csv").touch()
    tried = refused = 0
    for line, text in enumerate((header, row)):
        cells = text.split(",")
        for at in range(len(cells)):
            for wrong in CELLS:
                changed = [header, row]
                changed[line] = ",".join([*cells[:at], wrong, *cells[at + 1 :]])
                Path("mine.csv").write_text("\n".join(changed), encoding="utf-8")
                refused += bool(attempt("workload", "show", "mine.csv", "--json", names="mine.csv"))
                tried += 1
    assert tried > 50
    assert refused > 0.35 * tried


OPTIONS = {
    "--seq-len": ("0", "x", "", "-1", "1e3", "9" * 30),
    "--batch": ("0", "x", "99999999999999"),
    "--scope": ("blok", "", "\x1b[2J"),
    "--dataflow": ("flt", "flat,flex", ""),
    "--set": ("x", "array.rows=0", "array.rows=[", "array.rows=1:30", "buffer=no", "=", ""),
    "--bytes-per-element": ("0", "Q=x", "Q9=1", "=", ""),
    "--mapspace": ("rubi", "pfm,ruby", ""),
    "--objective": ("time", "", "\x1b"),
    "--patience": ("0", "x", "-5"),
    "--layer": ("L", ""),
    "--shape": ("M=1", "", "M=0,K=0"),
    "--mapping": ("nowhere.yaml", ".", "", "/dev/null"),
    "--\x1b": ("1",),
}


def test_options_in_pairs(attempt: Attempt) -> None:
    flat = [(option, value) for option, values in OPTIONS.items() for value in values]
    tried = 0
    for one, other in islice(combinations(flat, 2), SEED % SHARE, None, SHARE):
        assert attempt("estimate", "--hw", "toy", "--workload", "bert", *one, *other)
        tried += 1
    assert tried > 50
