"""Predict the rows of a measured file.

``python -m validation.silicon.predict SET ROWS.csv -o OUT.csv``

Rows have the columns of the reference file; measured figures may be missing. They are written with
one column more, ``predicted``, in the file's unit: cycles (tpu_v3, gemmini), us (tpu_v4_*), ns
(tpu_v6e_attention, tpu_v6e_layers), s (tpu_v5e_gemm), us (tpu_v6e_v7_gemm), ms (coral*). Empty
where the model can't say a row; a line on standard error says why.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from simaccel.errors import SimaccelError
from validation.silicon.coral import model as coral
from validation.silicon.gemmini import model as gemmini
from validation.silicon.nvdla import model as nvdla
from validation.silicon.tpu_v3 import model as tpu_v3
from validation.silicon.tpu_v4 import model as tpu_v4
from validation.silicon.tpu_v5e import model as tpu_v5e
from validation.silicon.tpu_v6e import layers as tpu_v6e_layers
from validation.silicon.tpu_v6e import model as tpu_v6e
from validation.silicon.tpu_v7 import model as tpu_v7
from validation.silicon.vta import model as vta

Row = Mapping[str, str]
Predict = Callable[[Sequence[Row]], Sequence[float | None]]

SETS: Final[Mapping[str, tuple[Predict, tuple[str, ...]]]] = {
    "tpu_v3": (tpu_v3.predict, ("workload",)),
    "tpu_v4_gemm": (tpu_v4.predict_gemm, ("M", "N", "K")),
    "tpu_v4_vector": (tpu_v4.predict_vector, ("operator", "shape")),
    "tpu_v4_layernorm": (tpu_v4.predict_layernorm, ("B", "S", "D")),
    "tpu_v4_copy": (tpu_v4.predict_copy, ("rows", "cols")),
    "tpu_v5e_gemm": (tpu_v5e.predict, ("kernel", "M", "K", "N")),
    "tpu_v6e_attention": (tpu_v6e.predict, ("phase", "chunk", "kv", "batch")),
    "tpu_v6e_layers": (tpu_v6e_layers.predict, ("layer", "tokens")),
    "tpu_v6e_v7_gemm": (tpu_v7.predict, ("chip", "timing", "dtype", "M", "N", "K")),
    "coral": (coral.predict, ("model", "input")),
    "coral_board": (coral.predict_board, ("model", "input")),
    "vta": (vta.predict, ("network",)),
    "vta_unpipelined": (vta.predict_unpipelined, ("network",)),
    "nvdla_layers": (nvdla.predict, ("network", "kind", *"CHWKRSPQ", "stride_h", "stride_w")),
    "nvdla_networks": (nvdla.predict_networks, ("macs", "conv_buffer_kib", "dram_gb_per_s")),
    "gemmini": (gemmini.predict, ("mapping",)),
}
"""What predicts a set, and the columns that it reads."""


def predict_each(
    predict: Predict, rows: Sequence[Row]
) -> tuple[Sequence[float | None], Mapping[int, str]]:
    """Return what rows are predicted to take, and by number why some are not."""
    with suppress(LookupError, TypeError, ValueError, SimaccelError):
        return predict(rows), {}
    predicted, left = list[float | None](), dict[int, str]()
    for number, row in enumerate(rows):
        try:
            predicted += predict([row])
        except (LookupError, TypeError, ValueError, SimaccelError) as error:
            predicted.append(None)
            left[number] = str(error)
    return predicted, left


@click.command(help=__doc__)
@click.argument("name", metavar="SET", type=click.Choice(list(SETS)))
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def main(name: str, rows: Path, out: Path) -> None:
    """Read, predict and write."""
    predict, needed = SETS[name]
    with rows.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        found, columns = list(reader), list(reader.fieldnames or ())
    missing = [column for column in needed if column not in columns]
    if missing:
        raise click.ClickException(f"{rows}: no column {', '.join(missing)}; has {columns}")
    predicted, left = predict_each(predict, found)
    for number, why in left.items():
        click.echo(f"{rows}: row {number + 1} is not predicted: {why}", err=True)
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*columns, "predicted"])
        for row, value in zip(found, predicted, strict=True):
            text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else value
            writer.writerow([*(row[column] for column in columns), text])


if __name__ == "__main__":
    main()
