"""The file says what is in it: units, meaning, and that periods are stored once."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from examples.make_traces import FOLDER
from simaccel.trace import TraceReader
from tests.trace.test_reference_traces import cycles_of_rows, times_of_rows

NAMES = ("edge_bert_flat", "toy_gemm_naive")


def _objects(file: h5py.File) -> dict[str, h5py.HLObject]:
    found: dict[str, h5py.HLObject] = {}
    file.visititems(found.__setitem__)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_group_and_dataset_says_what_it_is(name: str) -> None:
    with h5py.File(FOLDER / f"{name}.h5") as file:
        parts = _objects(file)
        assert len(parts) == 7 + 35
        for part, found in parts.items():
            assert found.attrs["meaning"], part
            once = part.startswith(("events", "index"))
            assert found.attrs["stored"] == ("once; repeats in segments" if once else "in full")
            assert isinstance(found, h5py.Group) or found.attrs["units"], part
        assert {parts[f"events/{name}"].attrs["units"] for name in ("start", "end", "served")} == {
            "cycles"
        }
        assert parts["events/held"].attrs["units"] == "bytes"
        for word in ("stored once", "repeats + 1", "first_row", "end_row", "totals", "frame()"):
            assert word in file.attrs["read_me"]


def test_what_the_file_says_first_gives_the_sums_of_the_run() -> None:
    """Without it a sum is of one period: the array's 768 heads are told as a few."""
    with h5py.File(FOLDER / "edge_bert_flat.h5") as file:
        lanes, causes = (list(file[f"tables/{name}"].asstr()) for name in ("lanes", "causes"))
        array, busy = lanes.index("array"), causes.index("busy")
        rows = (file["events/lane"][:] == array) & (file["events/cause"][:] == busy)
        stored = int((file["events/end"][:] - file["events/start"][:])[rows].sum())
        engine = file["totals/engine"][:].tolist().index(array)
        total = int(file["totals/cycles"][engine, busy])
        assert cycles_of_rows(file)[rows].sum() == total
        assert times_of_rows(file).max() > 300
    assert stored * 10 < total


@pytest.mark.parametrize("name", NAMES)
def test_traces_without_these_attributes_open(name: str, tmp_path: Path) -> None:
    """They were written before."""
    path = Path(shutil.copy(FOLDER / f"{name}.h5", tmp_path / "old.h5"))
    with h5py.File(path, "r+") as file:
        del file.attrs["read_me"]
        for found in _objects(file).values():
            for attribute in list(found.attrs):
                del found.attrs[attribute]
    with TraceReader.open(path) as old, TraceReader.open(FOLDER / f"{name}.h5") as new:
        old.check()
        assert old.totals == new.totals
        assert np.array_equal(old.events(0, 20_000), new.events(0, 20_000))
