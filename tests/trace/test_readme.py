import re
from ast import literal_eval
from pathlib import Path
from shutil import copyfile

import pytest

from simaccel.machine.accounts import NO_WAIT
from simaccel.trace import schema
from simaccel.units import Cause
from tests.trace.scripts import ENGINES, Again, Row, padded, write

README = Path(__file__).parents[2] / "traces" / "README.md"
BUSY = (Cause.BUSY, NO_WAIT, 1)
IDLE = (Cause.IDLE, NO_WAIT, 0)


def _run_example(pattern: str) -> None:
    found = re.search(pattern, README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    lines = [line.removeprefix("    ") if pattern[0] == "^" else line for line in
             found[1].splitlines()]  # fmt: skip
    exec(compile("\n".join(lines), str(README), "exec"), {})  # noqa: S102 - our own README


def test_the_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = Again((Row("array", 2, BUSY), Row("array", 1, IDLE)), 1)
    write(tmp_path / "run.h5", padded([Again((inner, Row("array", 3, BUSY)), 1)], ENGINES)).close()
    monkeypatch.chdir(tmp_path)
    _run_example(r"```python\n(.*?)```")
    assert capsys.readouterr().out.splitlines() == [
        "array busy 14", "array idle 4", "dma_in idle 18", "sfu idle 18",
        "0 2 busy", "3 5 busy", "9 11 busy", "12 14 busy",
        "2 3 idle", "5 6 idle", "11 12 idle", "14 15 idle",
        "6 9 busy", "15 18 busy",
    ]  # fmt: skip
    copyfile(README.parent / "toy_gemm_naive.h5", tmp_path / "run.h5")
    _run_example(r"^(    from simaccel import Trace\n.*?)^[A-Z]")
    summed, counted = map(literal_eval, capsys.readouterr().out.splitlines())
    assert summed == {engine: cycles for engine, cycles in counted.items() if cycles}
    assert summed["array"] > 0
    _run_example(r"^## What it is\n.*?^(    from simaccel import Trace\n.*?)^##")
    assert capsys.readouterr().out.startswith("Event(lane='dma_in0', start=0, end=")


def test_every_column_and_version_is_documented() -> None:
    text = README.read_text(encoding="utf-8")
    for name in (*schema.COLUMNS, *schema.SEGMENT_FIELDS, *schema.TABLES, *schema.TEXTS):
        assert f"`{name}`" in text
    assert f"| `schema_version` | {schema.SCHEMA_VERSION}." in text
