"""Predict the rows of a measured file.

``python -m validation.silicon.predict SET ROWS.csv -o OUT.csv``

Rows have the columns of the reference file; measured figures may be missing. They are written with
one column more, ``predicted``, in the file's unit: cycles (tpu_v3, gemmini), us (tpu_v4_*), ns
(tpu_v6e_attention, tpu_v6e_layers), s (tpu_v5e_gemm), us (tpu_v6e_v7_gemm, tpu_v7_google_gemm),
GB/s (tpu_v7_google_copy), ms (coral*). Empty where a row isn't one that the model can say; a line
on standard error says where and why.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from simaccel.errors import SimaccelError
from validation.silicon.booked import open_books
from validation.silicon.columns import Read, Row, like, of, read_row, whole
from validation.silicon.coral import model as coral
from validation.silicon.gemmini import model as gemmini
from validation.silicon.nvdla import model as nvdla
from validation.silicon.runs import NUMBERS
from validation.silicon.tpu_v3 import model as tpu_v3
from validation.silicon.tpu_v4 import model as tpu_v4
from validation.silicon.tpu_v5e import model as tpu_v5e
from validation.silicon.tpu_v6e import layers as tpu_v6e_layers
from validation.silicon.tpu_v6e import model as tpu_v6e
from validation.silicon.tpu_v7 import model as tpu_v7
from validation.silicon.vta import model as vta

Predict = Callable[[Sequence[Row]], Sequence[float]]


@dataclass(frozen=True)
class Predicted:
    """What predicts a set, and the readers of the columns that it needs, and of others it takes."""

    rows: Predict
    needed: Mapping[str, Read]
    taken: Mapping[str, Read] = field(default_factory=dict)


def _wholes(*names: str) -> dict[str, Read]:
    return dict.fromkeys(names, whole())


_WORD: Final = like(r".+", "a word")
_SHAPE: Final = like(r"[1-9][0-9]{0,8}(x[1-9][0-9]{0,8})*", "sizes from 1, with x between: 64x128")
_GEMM: Final = _wholes("M", "N", "K")
_MODEL: Final[dict[str, Read]] = {"model": of(coral.INPUTS), "input": _SHAPE}
_RESNET: Final[dict[str, Read]] = {
    "network": like(r"resnet(18|34|50|101|152)_v[12]", "resnet18_v1 (18, 34, 50, 101, 152; v1, v2)")
}
_LAYER: Final = {"network": _WORD, "kind": of(nvdla.KINDS)} | _wholes(
    *"CHWKRSPQ", "stride_h", "stride_w"
)
_RATE: Final = like(r"(?=.*[1-9])[0-9]{1,6}([.][0-9]{1,6})?", "a number above 0")
SETS: Final[Mapping[str, Predicted]] = {
    "tpu_v3": Predicted(tpu_v3.predict, {"workload": _WORD}),
    "tpu_v4_gemm": Predicted(tpu_v4.predict_gemm, _GEMM),
    "tpu_v4_vector": Predicted(
        tpu_v4.predict_vector, {"operator": of(tpu_v4.KINDS), "shape": _SHAPE}
    ),
    "tpu_v4_layernorm": Predicted(tpu_v4.predict_layernorm, _wholes("B", "S", "D")),
    "tpu_v4_copy": Predicted(
        tpu_v4.predict_copy,
        _wholes("rows", "cols"),
        {"dtype": of(NUMBERS), "event": of(("copy-done",))},
    ),
    "tpu_v5e_gemm": Predicted(
        tpu_v5e.predict,
        {
            "kernel": of(tpu_v5e.KERNELS),
            **_GEMM,
        },
        {"dtype": of(NUMBERS)},
    ),
    "tpu_v6e_attention": Predicted(
        tpu_v6e.predict,
        {"phase": of(("prefill", "decode")), "chunk": whole(0), "kv": whole(0), "batch": whole()},
    ),
    "tpu_v6e_layers": Predicted(
        tpu_v6e_layers.predict, {"layer": of(tpu_v6e_layers.LAYERS), "tokens": whole()}
    ),
    "tpu_v6e_v7_gemm": Predicted(
        tpu_v7.predict,
        {
            "chip": of(tpu_v7.CHIPS),
            "timing": of(("host", "device trace")),
            "dtype": of(NUMBERS),
            **_GEMM,
        },
    ),
    "tpu_v7_google_gemm": Predicted(tpu_v7.predict_google, {"dtype": of(NUMBERS), **_GEMM}),
    "tpu_v7_google_copy": Predicted(
        tpu_v7.predict_copy, {"bytes": like(r"[1-9][0-9]{0,11}", "a whole number from 1")}
    ),
    "coral": Predicted(coral.predict, _MODEL),
    "coral_board": Predicted(coral.predict_board, _MODEL),
    "vta": Predicted(vta.predict, _RESNET),
    "vta_unpipelined": Predicted(vta.predict_unpipelined, _RESNET),
    "nvdla_layers": Predicted(nvdla.predict, _LAYER),
    "nvdla_networks": Predicted(
        nvdla.predict_networks,
        {"macs": of(nvdla.SIZES), "conv_buffer_kib": whole(), "dram_gb_per_s": _RATE},
    ),
    "gemmini": Predicted(
        gemmini.predict,
        _wholes(*"RSPQCKN", "stride_h", "stride_w") | {"mapping": _WORD},
        {"array_dim": of(("16",))},
    ),
}
_FAULTS: Final = (LookupError, TypeError, ValueError, SimaccelError)


class FileError(click.ClickException):
    """A file that can't be read as rows, or not be written; nothing was."""

    exit_code = 2


def predict_each(name: str, rows: Sequence[Mapping[str, str]]) -> list[float | str]:
    """Return what each row of a set is predicted to take, or why that can't be said."""
    chosen = SETS[name]
    readers = {**chosen.needed, **{n: r for n, r in chosen.taken.items() if rows and n in rows[0]}}
    read = dict[int, Row]()
    predicted = list[float | str]()
    for number, row in enumerate(rows):
        try:
            read[number] = read_row(row, readers)
            predicted.append("")
        except ValueError as error:
            predicted.append(str(error))
    with suppress(*_FAULTS):
        for number, value in zip(read, chosen.rows(list(read.values())), strict=True):
            predicted[number] = value
        return predicted
    for number, row in read.items():
        try:
            (predicted[number],) = chosen.rows([row])
        except _FAULTS as error:
            predicted[number] = str(error).replace("\n", "; ")
    return predicted


def limits_each(name: str, rows: Sequence[Mapping[str, str]]) -> list[Counter[str]]:
    """Return the cycles of each row's kernels by what limits them; rows that are predicted."""
    found = []
    for row in rows:
        with open_books() as books:
            SETS[name].rows([read_row(row, SETS[name].needed)])
        found.append(books)
    return found


def read_rows(path: Path, name: str) -> tuple[list[dict[str, str]], list[str]]:
    """Return the rows and columns of a file.

    Raises:
        FileError: no UTF-8, no header, columns twice, or without one that the set needs.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows, columns = list(reader), list(reader.fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"{path}: no file of comma-separated UTF-8 text: {error}") from None
    needed = SETS[name].needed
    missing = [column for column in needed if column not in columns]
    if missing:
        has = f"has {', '.join(columns)}" if columns else "it is empty"
        raise FileError(f"{path}: no column {', '.join(missing)}; {has}")
    twice = [column for column in dict.fromkeys(columns) if columns.count(column) > 1]
    if twice or "predicted" in columns:
        raise FileError(
            f"{path}: column {(*twice, 'predicted')[0]}: allowed: each once, none predicted"
        )
    return rows, columns


@click.command(help=__doc__)
@click.argument("name", metavar="SET", type=click.Choice(list(SETS)))
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def main(name: str, rows: Path, out: Path) -> None:
    """Read, predict and write."""
    lines, columns = read_rows(rows, name)
    predicted = predict_each(name, lines)
    for number, why in enumerate(predicted):
        if isinstance(why, str):
            click.echo(f"{rows}: row {number + 1} is not predicted: {why}", err=True)
    try:
        with out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*columns, "predicted"])
            for row, value in zip(lines, predicted, strict=True):
                text = f"{value:.6g}" if isinstance(value, float) else value
                cell = "" if isinstance(value, str) else text
                writer.writerow([*(row[column] for column in columns), cell])
    except OSError as error:
        raise FileError(f"{out}: can't be written: {error.strerror}") from None


if __name__ == "__main__":
    main()
