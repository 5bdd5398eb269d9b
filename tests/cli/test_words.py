"""One word for one thing: figures of one run by all commands, tables and files."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from simaccel.units import LIMITS
from tests.cli.conftest import Call
from tests.importers.test_scalesim import SHIPPED

RUN = "--hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive"
EXPLORE = "explore --hw toy --workload gemm~shape=M=9,K=7,N=5 --dataflow naive --jobs 1"
HEADS = ("cycles", "time", "util.", "DRAM", "energy", "limit")
"""Heads of figures, in the order in which each table has them."""


def _line(text: str) -> dict[str, str]:
    (line,) = csv.DictReader(io.StringIO(text))
    return line


def _heads(text: str) -> list[str]:
    lines = text.splitlines()
    rule = next(at for at, line in enumerate(lines) if line.startswith("───"))
    return re.split(" {2,}", lines[rule - 1].strip())


def test_files_have_the_same_columns_with_the_same_figures(cli: Call) -> None:
    """A of 9x7 numbers of 2 B is read twice, B of 7x5 once, C of 9x5 is written."""
    ran = _line(cli(f"run {RUN} --csv -").stdout)
    compared = _line(cli(f"compare {RUN} --csv -").stdout)
    explored = _line(cli(f"{EXPLORE} --csv -").stdout)
    same = ("cycles", "seconds", "utilisation", "limit", "energy_pj")
    ways = ("dram_bytes", "dram_read_bytes", "dram_write_bytes")
    classes = tuple(f"dram_{name}_bytes" for name in ("weights", "activations", "cache"))
    for name in (*same, *ways, *classes):
        assert ran[name] == compared[name] == explored[name], name
    assert compared["bound_cycles"] == explored["bound_cycles"]
    assert [compared[name] for name in ways] == ["412", "322", "90"]
    assert [compared[name] for name in classes] == ["70", "342", "0"]
    assert (
        compared["dram_by_tensor"] == ran["dram_by_tensor"] == "read A 252; read B 70; write C 90"
    )
    assert compared["problem"] == explored["problem"] == ""


def test_json_says_what_csv_says(cli: Call) -> None:
    csv_of_run = _line(cli(f"compare {RUN} --csv -").stdout)
    ran = cli.json(f"run {RUN}")
    (compared,) = cli.json(f"compare {RUN}")
    (explored,) = cli.json(EXPLORE)["designs"]
    estimated = cli.json(f"estimate {RUN}")
    for found in (ran, compared):
        assert str(found["bound"]["cycles"]) == csv_of_run["bound_cycles"]
        assert found["limit"]["name"] == csv_of_run["limit"] == explored["limit"]
        bounds = found["dram_bound"]
        assert str(bounds["bound_bytes"]) == csv_of_run["dram_bound_bytes"]
        assert str(bounds["compulsory_bytes"]) == csv_of_run["dram_compulsory_bytes"]
    assert estimated["bound"]["cycles"] == ran["bound"]["cycles"] == explored["bound_cycles"]
    assert estimated["bytes"] == ran["bytes"]
    kept = [found["footprint_bytes"] for found in (ran, compared, explored, estimated)]
    assert len({*kept}) == 1


def test_tables_have_the_same_heads_and_the_same_limit(cli: Call) -> None:
    tables = [cli(line).stdout for line in (f"run {RUN}", f"compare {RUN}", EXPLORE)]
    for table in tables:
        heads = _heads(table)
        assert [head for head in heads if head in HEADS] == [*HEADS]
        assert LIMITS["dram_bandwidth"] in table
        assert "412 B" in table


@pytest.mark.parametrize("command", ["run", "compare", "explore"])
def test_what_nobody_knows_is_unknown_empty_and_null(
    cli: Call, tmp_path: Path, command: str
) -> None:
    path = tmp_path / "bare.cfg"
    path.write_text(SHIPPED)
    load = "gemm~shape=M=4,N=4,K=4" if command == "explore" else "gemm --shape M=4,N=4,K=4"
    more = "--objective cycles --jobs 1" if command == "explore" else ""
    line = f"{command} --hw {path} --workload {load} --dataflow naive {more}"
    table = cli(line).stdout
    assert "unknown" in table
    assert " 0 J" not in table
    assert " 0 pJ" not in table
    row = _line(cli(f"{line} --csv -").stdout)
    unknown = [name for name in ("energy_pj", "power_mw", "area_mm2", "edp_js") if name in row]
    assert unknown
    assert {row[name] for name in unknown} == {""}
    found: Any = cli.json(line)
    found = found["designs"] if command == "explore" else found
    (first,) = found if isinstance(found, list) else [found]
    energy = first["energy_pj"]
    assert set(energy.values() if isinstance(energy, dict) else [energy]) == {None}
    assert first["power_mw"] is None
    assert first["area_mm2"] is None
