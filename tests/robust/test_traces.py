"""Traces that are cut, flipped, retyped, resized or lead to other files: refused, or as before."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from click.testing import CliRunner

from simaccel.cli import main
from simaccel.errors import SimaccelError
from simaccel.trace import TraceReader
from simaccel.trace.schema import PARTS as DATASETS
from tests.draws import DRAWS, some
from tests.refusals import refusal_of

Attempt = Callable[..., str]

TRACES = Path(__file__).parents[2] / "traces"
SEGMENTED = TRACES / "toy_attention_flat.h5"
PARTS = [*DATASETS]
COMMANDS = (
    ("info",),
    ("stalls", "--no-what-if"),
    ("view", "-o", "-"),
    ("export", "--format", "csv", "-o", "-"),
    ("diff", "bad.h5"),
)
ELSEWHERE = "a secret of another file"


def _question(path: Path) -> object:
    """Ask what all commands need: the sums are right, and these are the stalls."""
    with TraceReader.open(path) as trace:
        trace.check()
        return trace.cycles, trace.figures, trace.header, trace.lanes, trace.account()


def _refused_or_same(path: Path, good: object) -> bool:
    try:
        found = _question(path)
    except SimaccelError as error:
        assert str(path) in str(error)  # noqa: PT017 - either is right
        return True
    assert found == good
    return False


@pytest.mark.parametrize("source", [TRACES / "toy_gemm_naive.h5", SEGMENTED])
def test_a_cut_trace_is_refused(tmp_path: Path, source: Path) -> None:
    data, path = source.read_bytes(), tmp_path / "bad.h5"
    good = _question(source)
    for length in (
        0,
        1,
        8,
        47,
        48,
        49,
        *range(50, len(data), len(data) // (97 if DRAWS > 1 else 41)),
    ):
        path.write_bytes(data[:length])
        assert _refused_or_same(path, good)


@pytest.mark.parametrize("source", [TRACES / "toy_gemm_naive.h5", SEGMENTED])
def test_a_flipped_bit_is_refused_or_harmless(tmp_path: Path, source: Path) -> None:
    data, path = source.read_bytes(), tmp_path / "bad.h5"
    good, refused = _question(source), 0
    for at in (*range(48), *range(48, len(data), len(data) // (211 if DRAWS > 1 else 53))):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        said = _refused_or_same(path, good)
        assert said or at >= 48
        refused += said
    assert refused > (70 if DRAWS > 1 else 50)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Give a trace to spoil."""
    return Path(shutil.copy(SEGMENTED, tmp_path / "bad.h5"))


def _replace(path: Path, name: str, make: Callable[[Any, str], None]) -> None:
    """Put another part in the place of one."""
    shutil.copy(SEGMENTED, path)
    with h5py.File(path, "r+") as file:
        old = file[name][:]
        del file[name]
        file.attrs["old"] = len(old)
        make(file, name)


def _as(dtype: str, shape: tuple[int, ...] = (3,)) -> Callable[[Any, str], None]:
    def make(file: Any, name: str) -> None:  # noqa: ANN401 - h5py has no types
        file.create_dataset(name, shape=shape, dtype=dtype, chunks=shape and (1,) * len(shape))

    return make


def _huge(file: Any, name: str) -> None:  # noqa: ANN401 - h5py has no types
    kind, n_dimensions = DATASETS[name].kind, DATASETS[name].dimensions
    dtype = h5py.string_dtype("utf-8", 64) if kind == "text" else kind
    shape, chunks = ((10**10,), (64,)) if n_dimensions == 1 else ((10**6, 10**4), (64, 64))
    file.create_dataset(name, shape=shape, dtype=dtype, chunks=chunks, compression="gzip")


def _elsewhere(file: Any, name: str) -> None:  # noqa: ANN401 - h5py has no types
    file[name] = h5py.ExternalLink("other.h5", name)


def _put(data: object, file: Any, name: str) -> None:  # noqa: ANN401 - h5py has no types
    file[name] = data


def _soft(file: Any, name: str) -> None:  # noqa: ANN401 - h5py has no types
    file[name] = h5py.SoftLink("/other")


def _virtual(file: Any, name: str) -> None:  # noqa: ANN401 - h5py has no types
    layout = h5py.VirtualLayout((1,), "S64")
    layout[:] = h5py.VirtualSource("other.h5", name, (1,))
    file.create_virtual_dataset(name, layout)


def _external(file: Any, name: str) -> None:  # noqa: ANN401 - h5py has no types
    file.create_dataset(name, (1,), "S64", external=[("other.h5", 0, 64)])


SPOILED = {
    "float": _as("<f8"),
    "other width": _as("<i2"),
    "texts": _as("S4"),
    "flat": _as("<i8", ()),
    "3 dimensions": _as("<i8", (1, 1, 1)),
    "huge": _huge,
    "a link to a file": _elsewhere,
    "a link": _soft,
    "virtual": _virtual,
    "external": _external,
    "dropped": lambda _file, _name: None,
    "a group": lambda file, name: file.create_group(name),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_part_that_is_no_part_of_a_trace_is_refused(bad: Path, how: str) -> None:
    (bad.parent / "other.h5").write_text(ELSEWHERE)
    for name in some(PARTS[[*SPOILED].index(how) % 4 :]):
        _replace(bad, name, SPOILED[how])
        said = refusal_of(_question, bad, error=SimaccelError)
        assert said.startswith(f"{bad}: damaged: ")
        assert name in said
        assert ELSEWHERE not in said


def test_a_process_that_refuses_ends_with_2(bad: Path) -> None:
    """What HDF5 does at the end of a process must not end it otherwise."""
    _replace(bad, "events/served", _virtual)
    environment = os.environ | {"PYTHONPATH": str(TRACES.parent)}
    line = [sys.executable, "-m", "simaccel", "trace", "info", str(bad)]
    done = subprocess.run(line, env=environment, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {bad}: damaged: events/served lies in another file; ")


def test_a_group_that_is_a_link_is_refused(bad: Path, tmp_path: Path) -> None:
    shutil.copy(SEGMENTED, tmp_path / "other.h5")
    for group in sorted({name.partition("/")[0] for name in PARTS}):
        shutil.copy(SEGMENTED, bad)
        with h5py.File(bad, "r+") as file:
            del file[group]
            file[group] = h5py.ExternalLink("other.h5", group)
        with pytest.raises(SimaccelError, match="is a link, perhaps to another file"):
            _question(bad)


ATTRIBUTES = (None, "x", 1.5, -1, 2**62, np.array([1, 2]), np.float64("nan"), h5py.Empty("<i8"))


def test_attributes_of_other_types_are_refused(bad: Path) -> None:
    good = _question(SEGMENTED)
    names = ("format", "schema_version", "complete", "cycles", "rows", "segments", "block_rows")
    for name in names:
        for value in ATTRIBUTES:
            shutil.copy(SEGMENTED, bad)
            with h5py.File(bad, "r+") as file:
                del file.attrs[name]
                if value is not None:
                    file.attrs[name] = value
            assert _refused_or_same(bad, good), (name, value)


@pytest.mark.parametrize("name", ["format", "code"])
def test_a_reference_is_no_text(bad: Path, name: str) -> None:
    good = _question(SEGMENTED)
    with h5py.File(bad, "r+") as file:
        file.attrs[name] = file["header"].ref
    if name == "code":  # which only says whether the same code ran
        assert _question(bad) == good
    else:
        with pytest.raises(SimaccelError, match="an HDF5 file but no trace"):
            _question(bad)


FIGURES: tuple[Any, ...] = (
    [], 3, "x", None, {"macs": "many"}, {"operators": 3}, {"operators": [3]}, {"operators": [{}]},
    {"bytes": []}, {"bytes": {"dram": {"read": {"A": 1}}}}, {"bytes": {"dram": {"read": 1}}},
    {"bytes": {"dram": {"read": {"A": -1}, "write": {}}}}, {"cycles": 1}, {"utilisation": "x"},
    {"bytes": {"dram": {"read": {"A": 2**80}, "write": {}}}}, {"macs": 1.5}, {"workload": 5},
)  # fmt: skip


def test_figures_of_other_types_are_refused_by_every_command(bad: Path, attempt: Attempt) -> None:
    """One of them by every command, the others each by another one; with more draws all by all."""
    for at, figures in enumerate(FIGURES):
        text = np.frombuffer(json.dumps(figures).encode(), dtype="u1")
        _replace(bad, "header/figures", partial(_put, text))
        asked = COMMANDS if at == 0 or DRAWS > 1 else COMMANDS[at % len(COMMANDS) :][:1]
        for command, *options in asked:
            assert attempt("trace", command, "bad.h5", *options, names="bad.h5: damaged: header/f")


@pytest.mark.parametrize(
    ("name", "add"), [("totals/cycles", 1), ("totals/served", 1), ("events/served", 1)]
)
def test_wrong_sums_are_refused_by_every_command(
    bad: Path, attempt: Attempt, name: str, add: int
) -> None:
    with h5py.File(bad, "r+") as file:
        file[name][:] = file[name][:] + add
    for command, *options in COMMANDS:
        assert attempt("trace", command, "bad.h5", *options, names="bad.h5: damaged: ")
    with h5py.File(bad, "r+") as file:
        file.attrs["cycles"] += 1
    assert attempt("trace", "plot", "bad.h5", "-o", "a.png", names="bad.h5: damaged: ")


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghi")
)


@pytest.mark.parametrize("text", [BOMB, "[" * 99_999, "a: &a [*a]", "- - 5", "\x1b[31m: 3"])
def test_texts_of_the_header_have_limits(bad: Path, attempt: Attempt, text: str) -> None:
    for name in ("accelerator", "workload", "mapping", "program"):
        _replace(
            bad,
            f"header/{name}",
            lambda file, name: file.create_dataset(
                name, data=np.array([text.encode()], h5py.string_dtype("utf-8", len(text)))
            ),
        )
        assert attempt("trace", "view", "bad.h5", "-o", "-", names="bad.h5: damaged: ")


def test_what_is_no_file_is_no_trace(attempt: Attempt) -> None:
    assert attempt("trace", "info", "/dev/zero", names="/dev/zero: is no regular file")
    assert attempt("trace", "info", ".", names=".: is a folder")
    assert CliRunner().invoke(main, ["trace", "info", str(SEGMENTED)]).exit_code == 0
