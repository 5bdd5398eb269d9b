"""Progress in a terminal: a bar, and above it a line for each part that is finished."""

import io
import re
import sys
import threading

import pytest

from simaccel.cli import main, progress
from simaccel.cli.progress import ProgressBar
from simaccel.hardware import Accelerator
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, make_mapping
from simaccel.search.accounts import SearchAccount
from simaccel.workload import Workload


class Terminal(io.StringIO):
    """Says that somebody looks."""

    def isatty(self) -> bool:
        """Return that it is a terminal."""
        return True


def _look(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Look at stderr from now on; pytest puts its own there between a fixture and the test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    monkeypatch.setenv("SIMACCEL_CACHE", "off")
    monkeypatch.setenv("COLUMNS", "120")
    return found


def _lines(terminal: Terminal) -> list[str]:
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    return [line.strip() for line in re.split(r"[\r\n]+", plain)]


def _called(line: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(args=line.split())
    assert not ended.value.code


def test_what_is_over_soon_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _look(monkeypatch)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 60.0)
    with ProgressBar("working") as bar:
        bar.line("one")
        bar.show(1.0)
    assert terminal.getvalue() == ""


def test_what_was_finished_before_the_bar_is_told_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _look(monkeypatch)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 60.0)
    with ProgressBar("working") as bar:
        bar.line("[b]one[/b]")
        monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
        bar.line("two")
        bar.show(0.5)
        bar.line("three")
    told = [line for line in _lines(terminal) if line in ("[b]one[/b]", "two", "three")]
    assert told == ["[b]one[/b]", "two", "three"]


def test_nobody_is_told_soon_outside_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    with ProgressBar("working") as bar:
        bar.line("one")
        bar.show(0.5)
        assert plain.getvalue() == ""
        monkeypatch.setattr(progress, "UNSEEN_SECONDS", 0.0)
        bar.show(0.7)
        assert plain.getvalue() == ""
        bar.line("two")
        assert plain.getvalue() == "one\ntwo\n"
    with ProgressBar("working", quiet=True) as bar:
        bar.line("three")
    assert plain.getvalue() == "one\ntwo\n"


def test_long_work_outside_of_a_terminal_prints_what_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows as they come, on stderr: those of a comparison, and designs beside a run."""
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    monkeypatch.setattr(progress, "UNSEEN_SECONDS", 0.0)
    gemm = "--hw toy --workload gemm --shape M=9,K=7,N=5"
    _called(f"compare {gemm} --dataflow naive --sweep buffer=256,512 --set jobs=1 --json")
    assert [line.partition(":")[0] for line in plain.getvalue().splitlines()] == [
        "256 B, naive",
        "512 B, naive",
    ]
    plain.truncate(0)
    plain.seek(0)
    _called(f"run {gemm} --dataflow naive --designs")
    names = [line.partition(": ")[0] for line in plain.getvalue().splitlines()]
    own = [name for name in names if not name.startswith("searched ")]
    assert own[:2] == ["twice the buffer", "twice the channels of DRAM"]
    assert re.search(r"(?m)^twice the buffer: [0-9]+ cycles$", plain.getvalue())


def test_a_command_that_tells_of_nothing_shows_that_it_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bar of a bound, which has none of its own; it gives way to the output."""
    terminal = _look(monkeypatch)
    shown = len(terminal.getvalue())
    real = ProgressBar.resume

    def at_once(bar: ProgressBar) -> None:
        real(bar)
        bar.show(0.0)

    monkeypatch.setattr(ProgressBar, "resume", at_once)
    _called("bound --workload gemm --shape M=8,K=8,N=8")
    assert any(line.startswith("bound ") for line in _lines(terminal)[shown:])
    assert not progress._open


def test_the_inner_of_two_bars_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _look(monkeypatch)
    monkeypatch.setattr(ProgressBar, "_appear", lambda _: None)
    with ProgressBar("outer", waits=True) as outer:
        with ProgressBar("inner") as bar:
            outer.show(0.5)
            bar.show(0.5)
        assert not any(line.startswith("outer") for line in _lines(terminal))
        assert any(line.startswith("inner") for line in _lines(terminal))
        outer.show(0.5)
        assert any(line.startswith("outer") for line in _lines(terminal))
        progress.clear_for_output()
        outer.show(0.5)
        assert _lines(terminal)[-1] == ""


def test_a_comparison_tells_of_each_run(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _look(monkeypatch)
    _called(
        "compare --hw toy --workload gemm --shape M=9,K=7,N=5 --dataflow naive,strips "
        "--sweep buffer=256,512 --set jobs=1 --json"
    )
    told = [line for line in _lines(terminal) if line.endswith(" cycles")]
    assert [line.rpartition(": ")[0] for line in told] == [
        f"{point}, {name}" for point in ("256 B", "512 B") for name in ("naive", "strips")
    ]


def test_a_run_of_a_network_tells_of_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler hands over the account of each search; here none but the account."""
    terminal = _look(monkeypatch)

    def searched(workload: Workload, on: Accelerator, _: str, options: Options) -> Mapping:
        for at, operator in enumerate(workload.operators):
            name = operator.name
            options.on_account(
                SearchAccount(name=name, operators=(name,), space=9, ran=1 + at, value=100 + at)
            )
        return make_mapping(workload, on, "naive-m")

    monkeypatch.setattr("simaccel.study.experiment.schedule_workload", searched)
    _called("run --hw toy --workload bert --seq-len 2 --scope la --dataflow flex --quiet")
    assert terminal.getvalue() == ""
    _called("run --hw toy --workload bert --seq-len 2 --scope la --dataflow flex")
    assert [line for line in _lines(terminal) if line.startswith("searched ")] == [
        "searched L: 1 mapping run, best cycles 100",
        "searched softmax: 2 mappings run, best cycles 101",
        "searched A: 3 mappings run, best cycles 102",
    ]


def test_a_bar_that_waits_for_good_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C in an import, whose lock the thread that draws then waits for."""
    terminal = _look(monkeypatch)
    monkeypatch.setattr(progress, "_MOST_SECONDS", 0.05)
    bar, held, over = ProgressBar("working"), threading.Event(), threading.Event()

    def draw() -> None:
        with bar._lock:
            held.set()
            over.wait(60)

    thread = threading.Thread(target=draw)
    thread.start()
    held.wait(60)
    bar.pause()
    assert thread.is_alive()
    assert bar.hidden
    assert terminal.getvalue().endswith("\x1b[?25h")
    over.set()
    thread.join(60)
