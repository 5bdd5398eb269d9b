"""What would be taken in silence is said: repeats, empty values, names, control characters."""

import errno
import gc
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from simaccel import cli
from simaccel.__main__ import main as start
from simaccel.cli import main
from simaccel.cli.command import ONCE_OR_LIST, Command
from simaccel.cli.settings import SettingOption
from simaccel.dataflows import ON_ANY_ARRAY
from simaccel.importers.workloads import load_workload
from simaccel.report import comparison
from simaccel.report.comparison import comparison_rows
from simaccel.search.effort import STRATEGIES
from simaccel.study import runs
from simaccel.study.points import Point, Record, StudyRow
from simaccel.trace.guard import defer_interrupts
from tests.cli.conftest import COMMANDS, Call

GEMM = "--hw toy --workload gemm --shape M=9,K=7,N=5"


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=lambda each: str(each)[:30])
def test_every_option_is_given_once_and_not_empty(
    words: tuple[str, ...], command: click.Command
) -> None:
    assert isinstance(command, Command)
    for param in command.params:
        name = param.opts[0] if isinstance(param, click.Option) else ""
        valued = isinstance(param, click.Option) and not param.is_flag
        if valued and not param.multiple:
            result = CliRunner().invoke(main, [*words, name, "1", name, "2"])
            assert result.exit_code == 2
            long = param.spelling if isinstance(param, SettingOption) else max(param.opts, key=len)
            lists = words == ("compare",) and long != "--format"
            allowed = ONCE_OR_LIST if lists else "one"
            assert f"command line: {long}: got '2 values'; allowed: {allowed}\n" in result.stderr
        if valued and isinstance(param.type, click.types.FloatParamType):
            result = CliRunner().invoke(main, [*words, name, "nan"])
            assert result.stderr.endswith(": got 'nan'; allowed: a number\n")
        if name in ("--set", "--dim", "--bytes-per-element"):
            result = CliRunner().invoke(main, [*words, name, "a=1", name, "a=2"])
            assert result.exit_code == 2
            long = param.spelling if isinstance(param, SettingOption) else name
            assert f"error: command line: {long} a: got '2 values'; allowed: one\n" in result.stderr
        if valued or not isinstance(param, click.Option):
            result = CliRunner().invoke(main, [*words, *([name] if name else []), " "])
            assert result.exit_code == 2
            assert ": got ' '; allowed: a value that is not empty\n" in result.stderr


def test_a_flag_twice_and_two_fields_are_no_contradiction(cli: Call) -> None:
    run = f"run {GEMM} --dataflow naive --quiet"
    cli.printed(f"{run} --quiet")
    cli.printed(f"{run} --set array.rows=2 --set array.cols=2")


@pytest.mark.parametrize(
    ("line", "models"),
    [
        ("run --dataflow naive --quiet --set dram.map=rbc", "channel"),
        ("compare --dataflow naive --sweep dram.map=rbc,bgil", "channel"),
        ("compare --dataflow naive --set dram.map=rbc --sweep dram.model=channel,banked", ""),
        (
            (
                "compare --dataflow naive --set dram.map=rbc --set dram.request_bytes=64 "
                "--set dram.requests_in_flight=4 --sweep dram.model=channel,requests"
            ),
            "channel requests",
        ),
        ("explore --dataflow naive --axis dram.map=rbc,bgil", "channel"),
        ("explore --dataflow naive --set dram.map=rbc --axis dram.model=channel,banked", ""),
    ],
)
def test_a_field_that_no_memory_model_uses_is_named(cli: Call, line: str, models: str) -> None:
    name, options = line.split(maxsplit=1)
    result = cli(f"{name} {GEMM} {options} --set dram.part=HBM2")
    assert result.exit_code == 0
    reasons = [
        f"nothing, as dram.model is {model}; only banked uses it" for model in models.split()
    ]
    text = f"warning: dram.map changes {'; '.join(reasons)}"
    assert [one for one in result.stderr.splitlines() if "warning" in one] == [text] * bool(models)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run --set energy.node=7nm", "no energy, as those of toy are given; areas follow it"),
        ("run --set energy.node=7nm --hw tpu_v4i", ""),
        ("run --set links.bytes_per_second=1GB/s", "nothing, as there is one chip"),
        ("run --set links.bytes_per_second=1GB/s --chips 2", ""),
        ("compare --set links.bytes_per_second=1GB/s --chips 1,2", ""),
        ("explore --set links.bytes_per_second=1GB/s --axis chips=1,2", ""),
        (
            "explore --set links.bytes_per_second=1GB/s --axis array.rows=2",
            "nothing, as there is one chip",
        ),
    ],
)
def test_what_changes_nothing_is_named(cli: Call, line: str, said: str) -> None:
    name, options = line.split(maxsplit=1)
    result = cli(
        f"{name} --workload gemm --shape M=1,K=1,N=1 --dataflow naive {options}"
        + " --hw toy" * ("--hw" not in line)
    )
    assert result.exit_code == 0, result.output
    field = options.split("=")[0].split()[-1]
    assert f"warning: {field} changes {said}" * bool(said) in result.stderr
    assert ("changes" in result.stderr) == bool(said)


@pytest.mark.parametrize(
    "line",
    [
        ("--\x1b[31m",),
        ("\x1b[31m",),
        ("run", "--\x1b[31m"),
        ("trace", "\x1b[31m"),
        ("trace", "info", "\x1b[31m.h5"),
        ("hw", "show", "\x1b[31m"),
        ("run", "--hw", "toy", "--workload", "\x1b[31m"),
        ("run", "--hw", "toy", "--workload", "bert", "--set", "\x1b[31m=3"),
        ("map", "--hw", "toy", "--workload", "bert", "--objective", "\x1b[31m"),
    ],
)
def test_no_message_controls_the_terminal(line: tuple[str, ...]) -> None:
    result = CliRunner().invoke(main, line)
    assert result.exit_code == 2
    assert "\\x1b[31m" in result.stderr
    assert "\x1b" not in result.output


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("a b", "tensors.a b"),
        ("</script>", "tensors.</script>"),
        ("a[0]", "tensors.a[0]"),
        ("+1+1", "tensors.+1+1"),  # a spreadsheet would compute it
        ("-2+3", "tensors.-2+3"),
        ("@SUM", "tensors.@SUM"),
    ],
)
def test_names_that_no_trace_can_hold_are_refused(
    cli: Call, tmp_path: Path, name: str, fault: str
) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(
        f"kind: einsums\nname: w\ntensors: {{'{name}': {{kind: input}}, B: {{kind: output}}}}\n"
        "operators: {o: {ranks: {m: 2}, "
        f"inputs: [{{tensor: '{name}', projection: [m]}}], "
        "output: {tensor: B, projection: [m]}}}\n"
    )
    said = cli.refused(f"workload show {file}")
    assert f"{file}: {fault}: got '{name}'; allowed: 1 to 200 visible characters" in said


PRODUCT = """
kind: einsums
name: mul
tensors: {G: {kind: input}, U: {kind: input}, H: {kind: output}}
operators:
  gate:
    ranks: {n: 6, f: 8}
    inputs: [{tensor: G, projection: [n, f]}, {tensor: U, projection: [n, f]}]
    output: {tensor: H, projection: [n, f]}
"""
BY_HAND = """
workload: {name: mul, fingerprint: FINGERPRINT}
dataflow: mine
groups:
- operators: [gate]
  tree: [loop n 1, loop f 1, keep G buffer, keep U buffer, keep H buffer, do gate array ws]
"""


@pytest.mark.parametrize("how", [*ON_ANY_ARRAY, *STRATEGIES, "m.yaml"])
@pytest.mark.parametrize("command", ["run", "estimate"])
def test_an_elementwise_product_is_never_run_on_a_systolic_array(
    cli: Call, command: str, how: str
) -> None:
    Path("mul.yaml").write_text(PRODUCT)
    fingerprint = load_workload(Path("mul.yaml")).fingerprint
    Path("m.yaml").write_text(BY_HAND.replace("FINGERPRINT", fingerprint))
    option = "dataflow" if how in ON_ANY_ARRAY else "mapspace" if how in STRATEGIES else "mapping"
    result = cli(f"{command} --hw toy --workload mul.yaml --{option} {how}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "elementwise product" in result.stderr
    assert "vector operator of kind product" in result.stderr


def _stop(finished: int) -> Callable[..., Record]:
    """Make what runs a point, and is interrupted after some."""
    run, count = runs.make_record, iter(range(100))

    def one(point: Point, *, whole: bool) -> Record:
        if next(count) == finished:
            raise KeyboardInterrupt
        return run(point, whole=whole)

    return one


@pytest.mark.parametrize("target", ["rows.csv", "-"])
def test_ctrl_c_keeps_the_finished_points(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setattr(runs, "make_record", _stop(2))
    options = "--dataflow naive,flex --sweep buffer=1KiB,2KiB --jobs 1"
    result = cli(f"compare {GEMM} {options} --csv {target}")
    assert result.exit_code == 130
    text = result.stdout
    if target != "-":
        (file,) = tmp_path.iterdir()
        assert file.name.startswith("rows.csv.")
        assert result.stderr == f"2 of 4 finished points are in {file}\ninterrupted\n"
        text = file.read_text()
    header, *rows = text.splitlines()
    assert header.startswith("buffer_bytes,seq_len,dataflow,cycles,")
    assert [row.endswith(",not finished") for row in rows] == [False, False, True, True]
    assert len({row.count(",") for row in rows}) == 1


@pytest.mark.parametrize("taken", [0, 1])
def test_a_full_disk_leaves_what_it_took_of_the_finished_points_and_no_more(
    cli: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    """It refuses the table once that was written so often."""
    monkeypatch.setattr(runs, "make_record", _stop(2))
    written = []

    def table(rows: Sequence[StudyRow], _metrics: object) -> list[dict[str, object]]:
        written.append(rows)
        if len(written) > taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return comparison_rows(rows)

    monkeypatch.setattr(comparison, "comparison_rows", table)
    options = "--dataflow naive,flex --sweep buffer=1KiB,2KiB --set jobs=1"
    result = cli(f"compare {GEMM} {options} --csv rows.csv")
    files = [*tmp_path.iterdir()]
    assert len(files) == taken
    said = [f"2 of 4 finished points are in {file}\n" for file in files]
    assert result.stderr == "".join([*said, "interrupted\n"])


def test_a_command_without_options_shows_its_help() -> None:
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: ")
    assert "Error" not in result.stderr


@pytest.mark.parametrize("owner", [click.Group, Command])
def test_ctrl_c_while_options_are_read_is_130(
    monkeypatch: pytest.MonkeyPatch, owner: type[click.Command]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, "parse_args", interrupted)
    result = CliRunner().invoke(main, ["hw", "list"])
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.strip() == "interrupted"


def test_sigterm_waits_for_hdf5_too() -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    done = []

    def work() -> None:
        with defer_interrupts():
            signal.raise_signal(signal.SIGTERM)
            done.append(1)

    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == [1]


@pytest.mark.parametrize("error", [TypeError("no common type"), SystemExit(2)])
def test_an_interrupt_that_a_library_turns_into_another_error(
    error: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As numpy does where it looks for a common type of two."""

    def swallowing() -> None:
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise error

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(cli, "main", swallowing)
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr("simaccel.__main__._came", [])
    threshold = gc.get_threshold()
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit) as end:
            start()
    finally:
        gc.set_threshold(*threshold)
        for one, handler in handlers.items():
            signal.signal(one, handler)
    assert (end.value.code, capsys.readouterr().err) == (130, "interrupted\n")
