"""Bad inputs, full disks and kills, each in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner

from simaccel.cli import main
from tests.draws import DRAWS
from tests.robust.kills import GEMM, kill_some
from tests.robust.processes import REPOSITORY, Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")

MOST_BYTES = 2**30
MOST_SECONDS = 20
TRACE = str(REPOSITORY / "traces" / "toy_gemm_naive.h5")


def refused(server: Server, folder: Path, *line: str) -> str:
    """Require a quick refusal without a traceback, and give what it says."""
    done = server.run(*line, folder=folder)
    assert done.code == 2, (line, done)
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert done.seconds < MOST_SECONDS, (line, done)
    assert done.peak_bytes < MOST_BYTES, (line, done)
    return done.stderr


def _nine(letters: str, form: str) -> str:
    """Write lists (or merges) of nine aliases of nine aliases of ..."""
    lines = [f"{letters[0]}: &{letters[0]} {form.format('x: 1')}"]
    for old, new in pairwise(letters):
        lines.append(f"{new}: &{new} {form.format('<<: [' + ','.join([f'*{old}'] * 9) + ']')}")
    return "\n".join(lines)


OPERATOR = (
    "  o{0}: {{ranks: {{m: 4, k: 4}}, inputs: [{{tensor: T{0}, projection: [m, k]}}], "
    "output: {{tensor: T{1}, projection: [m, k]}}}}\n"
)


def _einsums(count: int) -> str:
    """Write a chain of so many operators."""
    head = "kind: einsums\nname: x\ntensors: {}\noperators:\n"
    return head + "".join(OPERATOR.format(at, at + 1) for at in range(count))


DOCUMENTS: dict[str, Callable[[], str]] = {
    "bomb": lambda: (
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{n}: &{n} [{','.join([f'*{o}'] * 9)}]\n"
            for o, n in zip("abcdefgh", "bcdefghi", strict=True)
        )
    ),
    "merges": lambda: _nine("abcdefghi", "{{{}}}"),
    "deep": lambda: "[" * 2_000_000,
    "deep blocks": lambda: "- " * 1_000_000,
    "deep keys": lambda: "? " * 1_000_000,
    "itself": lambda: "name: &a [*a]",
    "long": lambda: "name: toy\n" + "# nothing\n" * 500_000,
    "wide": lambda: "[" + "1," * 1_500_000 + "]",
    "one text": lambda: "a" * 4_000_000,
    "digits": lambda: "clock_hz: " + "9" * 100_000,
    "binary": lambda: "\x00\x01\x02",
    "many operators": lambda: _einsums(40_000),
    "many layers": lambda: "Layer,M,N,K\n" + "layer,4,4,4\n" * 200_000,
    "operators": lambda: _einsums(20_000),
}


EACH_READER = {"bomb", "itself", *(DOCUMENTS if DRAWS > 1 else ())}
"""Documents that accelerators and mappings are tried with, too."""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_that_would_take_for_ever_are_refused_at_once(
    server: Server, tmp_path: Path, name: str
) -> None:
    text = DOCUMENTS[name]()
    for file in ("mine.yaml", "mine.csv"):
        (tmp_path / file).write_text(text, encoding="utf-8")
    lines = (
        ("workload", "show", "mine.yaml"),
        ("workload", "show", "mine.csv"),
        ("hw", "show", "mine.yaml"),
        ("run", *GEMM, "--mapping", "mine.yaml"),
    )
    for line in lines if name in EACH_READER else lines[:2]:
        said = refused(server, tmp_path, *line)
        assert said.startswith(f"error: {next(one for one in line if one.startswith('mine'))}: ")


READERS = (
    *(("hw show", suffix) for suffix in ("yaml", "cfg")),
    *(("workload show", suffix) for suffix in ("yaml", "csv", "onnx", "m")),
    (f"run {' '.join(GEMM)} --mapping", "yaml"),
    ("directives", "m"),
    ("trace info", "h5"),
)


@pytest.mark.parametrize(("line", "suffix"), READERS)
def test_what_is_no_file_is_refused_at_once(
    server: Server, tmp_path: Path, line: str, suffix: str
) -> None:
    os.mkfifo(tmp_path / f"fifo.{suffix}")
    (tmp_path / f"zero.{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"loop.{suffix}").symlink_to(f"loop.{suffix}")
    for name in ("fifo", "zero", "loop"):
        file = f"{name}.{suffix}"
        assert refused(server, tmp_path, *line.split(), file).startswith(f"error: {file}: ")


@pytest.mark.parametrize("size", [5_000, *[100, 1_050_000, 1_500_000] * (DRAWS > 1)])
def test_a_full_disk_leaves_the_old_file(server: Server, tmp_path: Path, size: int) -> None:
    """A limit of the size of files is a disk that is full for this process."""
    long = ("--hw", "toy", "--workload", "gemm", "--shape", "M=900,K=70,N=90")
    lines = {
        "t.h5": ("run", *long, "--dataflow", "naive", "--set", "fast-forward=no", "--trace"),
        "p.html": ("trace", "view", TRACE, "-o"),
        "p.png": ("trace", "plot", TRACE, "-o"),
    }
    for name, line in lines.items():
        target = tmp_path / name
        target.write_text("old")
        done = server.run(*line, name, "--force", folder=tmp_path, file_bytes=size)
        assert "Traceback" not in done.stderr
        if done.code:
            assert done.code == 2, (line, done)
            assert target.read_text() == "old"
            assert done.stderr.startswith((f"error: {name}: output: got 'File too", "error: "))
        assert done.code == 2 or size > 3_000
        assert [path.name for path in tmp_path.iterdir()] == [name]
        target.unlink()


def test_the_same_bytes_from_any_number_of_processes_and_any_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = "--hw toy --workload gemm --shape M=9,K=7,N=5"
    lines = (
        f"compare {tiny} --dataflow naive,flex --csv rows.csv",
        "map --hw toy --workload two.csv --mapspace ruby-s --patience 5 --explain -o map.yaml",
    )
    code = f"""if __name__ == '__main__':
        from simaccel.cli import main
        for line in {lines}:
            main([*line.split(), '--jobs', '2'], standalone_mode=False)
    """
    monkeypatch.setenv("SIMACCEL_CACHE", "off")  # each searches
    monkeypatch.delenv("COLUMNS", raising=False)
    for folder in (tmp_path / "1", tmp_path / "2"):
        folder.mkdir()
        (folder / "two.csv").write_text("Layer, M, N, K,\none, 9, 5, 7,\ntwo, 6, 4, 8,\n")
    monkeypatch.chdir(tmp_path / "1")
    alone = [CliRunner().invoke(main, [*line.split(), "--jobs", "1"]).stdout for line in lines]
    (tmp_path / "both.py").write_text(dedent(code))
    seed = "4712" if os.environ.get("PYTHONHASHSEED") == "4711" else "4711"
    done = subprocess.run(
        [sys.executable, "../both.py"],
        cwd=tmp_path / "2",
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONHASHSEED": seed},
        check=True,
        capture_output=True,
    )
    assert done.stdout.decode() == "".join(alone)
    assert "table: rows.csv" in alone[0].splitlines()
    found = [
        {path.name: path.read_bytes() for path in (tmp_path / number).iterdir()} for number in "12"
    ]
    assert found[0] == found[1]
    assert sorted(found[0]) == ["map.yaml", "rows.csv", "two.csv"]


@pytest.mark.long
def test_kills_at_any_moment(server: Server, tmp_path: Path) -> None:
    times = 3 if DRAWS == 1 else 4
    ends = kill_some(server, tmp_path, times)
    assert ends["whole"] + ends["killed"] == 4 * times
    assert ends["killed"] > times


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_modules_are_loaded(number: int, tmp_path: Path) -> None:
    """In a process that has loaded nothing yet, unlike those of the server."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    line = [sys.executable, "-m", "simaccel", *["run", "--hw", "toy", "--workload", "bert"]]
    with subprocess.Popen(
        line,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as child:
        maps = Path(f"/proc/{child.pid}/maps")
        while maps.exists() and child.poll() is None and "numpy" not in maps.read_text():
            time.sleep(0.005)
        child.send_signal(number)
        out, said = child.communicate(timeout=60)
    assert (child.returncode, out, said) == (130, "", "interrupted\n")
