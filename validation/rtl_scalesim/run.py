"""The charge of folds against SCALE-Sim's own systolic array in Verilog, cycle by cycle.

``python -m validation.rtl_scalesim.run FOLDER [--shapes N] [--seed S] [--write]``

``FOLDER`` has ``traditional_mac.v`` and ``traditional_systolic.v`` of
``code-examples/systolic-array-rtl/systolic_array_8bit_MAC_PE`` of
https://github.com/scalesim-project/scale-sim-v2, which are not part of this project. GEMMs with
remainders are played to it with Icarus Verilog; it fails if a product is wrong or a difference of
cycles has another size than its reason. A run of at least the default size, or with ``--write``,
writes ``cycles.csv`` and the tables of ``README.md``.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from validation.bound.readme import write_figures
from validation.rtl.run import draw
from validation.rtl.simulate import Gemm, installed
from validation.rtl_scalesim.plays import Play, folds, play, product

HERE: Final = Path(__file__).parent
SHAPES: Final = 96
FILES: Final = ("traditional_mac.v", "traditional_systolic.v")
WAYS: Final = (
    ("os", "none", "full"),
    ("os", "none", "used"),
    ("os", "preload", "full"),
    ("ws", "none", "full"),
    ("ws", "none", "used"),
    ("is", "none", "full"),
    ("is", "none", "used"),
)
"""What the array can do: a PE has one register for a weight and one for a sum, so weights don't
come behind a stream, and sums leave behind the next one of full folds only."""
_UNDRIVEN: Final = "wire [255:0] tie_low;"


class FilesError(Exception):
    """The folder hasn't the files, or they are others than these."""


@dataclass(frozen=True)
class Compared:
    """A GEMM on SCALE-Sim's array and by the charge of its folds."""

    rows: int
    cols: int
    gemm: Gemm
    rtl: int
    ours: int
    reason: int
    """Cycles that the array takes longer, from how it is built (`longer`)."""
    same_product: bool
    early_differs: bool
    """Whether a bench that takes one cycle less gets a wrong product."""

    @property
    def explained(self) -> bool:
        """Whether the product is right and the cycles differ by the reason alone."""
        return self.same_product and self.rtl - self.ours == self.reason

    def cells(self) -> list[object]:
        """Return the line of ``cycles.csv``."""
        gemm = self.gemm
        way = gemm.kind, gemm.overlap, gemm.edge_folds
        number = gemm.folds(self.rows, self.cols)
        shape = gemm.g, gemm.m, gemm.k, gemm.n
        return [self.rows, self.cols, *shape, *way, number, self.rtl, self.ours, self.reason]


COLUMNS: Final = (
    *("rows", "cols", "g", "m", "k", "n", "stationarity", "overlap", "edge_folds"),
    *("folds", "rtl", "ours", "reason"),
)


def longer(rows: int, cols: int, gemm: Gemm) -> int:
    """Return the cycles by which the array must be slower than the charge of a GEMM's folds.

    A fold of sums that stay: one, as words pass a register before they are multiplied, and between
    folds nothing is multiplied while sums are handed to the vertical registers; more where sums of
    the fold before have not left all rows. A fold of weights: one for the empty cycle between
    weights and sums, and rows - 1, as sums pass two registers a row.
    """
    if gemm.kind != "os":
        return rows * gemm.folds(rows, cols)
    cycles = 0
    for number, fold in enumerate(folds(gemm, rows, cols)):
        (high, steps), wide = fold.along.shape, fold.stays.shape[1]
        high, wide = (rows, cols) if gemm.edge_folds == "full" else (high, wide)
        charge = steps + high + wide - 2
        cycles += max(1, rows - charge if number else 0)
    return cycles


def compiled(folder: Path, into: Path) -> list[Path]:
    """Copy the files to where they are compiled, with 0 for the wire of a PE that nothing drives.

    Raises:
        FilesError: a file is not there, or has no such wire.
    """
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise FilesError(
            f"{folder}: no {', '.join(missing)}; wanted: the folder systolic_array_8bit_MAC_PE of "
            "code-examples/systolic-array-rtl of scale-sim-v2"
        )
    texts = [(folder / name).read_text(encoding="utf-8") for name in FILES]
    if texts[0].count(_UNDRIVEN) != 1:
        raise FilesError(f"{folder / FILES[0]}: no line {_UNDRIVEN!r}; it is another PE")
    texts[0] = texts[0].replace(_UNDRIVEN, _UNDRIVEN.replace(";", " = 256'b0;"))
    for name, text in zip(FILES, texts, strict=True):
        (into / name).write_text(text, encoding="utf-8")
    return [into / name for name in FILES]


def simulate(
    folder: Path, rows: int, cols: int, plays: Sequence[Play], *, stacked: bool = True
) -> Iterator[list[str]]:
    """Play to an array of ``rows`` x ``cols`` and return what was at its foot in each cycle.

    ``stacked``: arrays of one row below one another, in place of one with all rows.

    Raises:
        FilesError: a file is not there, or has other wires.
    """
    with tempfile.TemporaryDirectory() as place:
        built, source, made = (Path(place) / name for name in ("built", "given", "made"))
        sizes = {"ROWS": rows, "COLS": cols, "STACKED": int(stacked)}
        sources = [HERE / "bench.sv", *compiled(folder, Path(place))]
        parameters = [f"-Pbench.{name}={value}" for name, value in sizes.items()]
        _run("iverilog", "-g2012", "-s", "bench", "-o", built, *parameters, *sources)
        texts = [play.text() for play in plays]
        source.write_text("\n".join(line for text in texts for line in text) + "\n", "ascii")
        _run("vvp", "-n", built, f"+in={source}", f"+out={made}")
        seen = made.read_text(encoding="ascii").split()
    at = 0
    for text in texts:
        yield seen[at : at + len(text)]
        at += len(text)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        raise FilesError((done.stdout + done.stderr).strip())


def compare(folder: Path, rows: int, cols: int, gemms: Sequence[Gemm]) -> Iterator[Compared]:
    """Play GEMMs to rows of the array, stacked, and once more with one cycle less each."""
    plays = [play(gemm, rows, cols, early=early) for gemm in gemms for early in (0, 1)]
    seen = simulate(folder, rows, cols, plays)
    results = [made.result(cycles) for made, cycles in zip(plays, seen, strict=True)]
    for gemm, made, right, early in zip(
        gemms, plays[::2], results[::2], results[1::2], strict=True
    ):
        yield Compared(
            rows,
            cols,
            gemm,
            made.last_out if gemm.overlap == "preload" else made.last_mac,
            charge(rows, cols, gemm),
            longer(rows, cols, gemm),
            bool(np.array_equal(right, product(gemm))),
            not np.array_equal(early, product(gemm)),
        )


def charge(rows: int, cols: int, gemm: Gemm) -> int:
    """Return the charge of a GEMM's batches behind one another; what leaves last, leaves once."""
    alone = gemm.spec(rows, cols).gemm_cycles(m=gemm.m, k=gemm.k, n=gemm.n, stationarity=gemm.kind)
    leaves = (rows - 1) * (gemm.overlap == "preload")
    return gemm.g * (alone - leaves) + leaves


def wrong_sums(folder: Path, sizes: Iterable[tuple[int, int]]) -> list[str]:
    """Count, array by array as the files wire it, the wrong sums of one output-stationary fold."""
    lines = ["| array | wrong sums |", "| --- | --- |"]
    for rows, cols in sizes:
        gemm = Gemm(1, rows, 5, cols, "os", "none", "full")
        made = play(gemm, rows, cols)
        (seen,) = simulate(folder, rows, cols, [made], stacked=False)
        wrong = np.sum(made.result(seen) != product(gemm))
        lines.append(f"| {rows} x {cols} | {wrong} of {rows * cols} |")
    return lines


def table(compared: Sequence[Compared]) -> list[str]:
    """Write a line for each way: how many, how much longer, what has no reason."""
    lines = [
        (
            "| way | GEMMs | folds | products right | longer for each fold, cycles "
            "| without a reason | a cycle earlier is wrong |"
        ),
        "| --- " * 7 + "|",
    ]
    for way in WAYS:
        of_way = [c for c in compared if (c.gemm.kind, c.gemm.overlap, c.gemm.edge_folds) == way]
        number = [c.gemm.folds(c.rows, c.cols) for c in of_way]
        lines.append(
            f"| {', '.join(way)} | {len(of_way)} | {sum(number)} "
            f"| {sum(c.same_product for c in of_way)} | {_longer(of_way)} "
            f"| {sum(not c.explained for c in of_way)} | {sum(c.early_differs for c in of_way)} |"
        )
    return lines


def _longer(some: Sequence[Compared]) -> str:
    """Write the cycles by which a fold takes longer, in the words of its reason where it is one."""
    shares = [((c.rtl - c.ours) / c.gemm.folds(c.rows, c.cols), c.rows) for c in some]
    if all(share == rows for share, rows in shares):
        return "the rows of the array"
    low, high = min(shares)[0], max(shares)[0]
    return f"{low:g}" if low == high else f"{low:g} to {high:.3g}"


def write(compared: Sequence[Compared], wrong: Sequence[str]) -> None:
    """Write ``cycles.csv`` and the tables of the page."""
    with (HERE / "cycles.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(COLUMNS)
        lines.writerows(one.cells() for one in compared)
    for name, text in (("cycles", table(compared)), ("wires", wrong)):
        write_figures(name, "\n".join(text), HERE / "README.md")


def main() -> None:
    """Play, compare, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shapes", type=int, default=SHAPES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    if not installed():
        sys.exit("Icarus Verilog is not installed (Debian: apt-get install iverilog)")
    drawn = draw(asked.seed, asked.shapes)
    compared: list[Compared] = []
    try:
        for (rows, cols), shapes in drawn.items():
            gemms = [Gemm.of(shape, *way) for shape in shapes for way in WAYS]
            compared += compare(asked.folder, rows, cols, gemms)
        wrong = wrong_sums(asked.folder, drawn)
    except FilesError as error:
        sys.exit(str(error))
    print("\n".join((*table(compared), "", *wrong)))
    odd = [comparison for comparison in compared if not comparison.explained]
    for comparison in odd[:20]:
        print(f"{comparison.rows} x {comparison.cols}, {comparison.gemm}: {comparison.rtl} cycles,")
        print(f"  ours {comparison.ours}, reason {comparison.reason}", end="; ")
        print(f"product right: {comparison.same_product}")
    if asked.write or asked.shapes >= SHAPES:
        write(compared, wrong)
    sys.exit(1 if odd else 0)


if __name__ == "__main__":
    main()
