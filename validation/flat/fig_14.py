"""Figure 14: the design space, BERT, 512 tokens, edge. `python -m validation.flat.fig_14`.

Every tile of table 1 (samples, heads, every row count) is bounded in a buffer without limits; the
frontier of buffer against the most utilisation that the lower bound leaves runs on the machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from simaccel.analytic.prediction import predict
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.space import mergeable
from simaccel.mapping.tree import Group
from simaccel.report.figures.style import SINGLE_COLUMN_INCHES, new_figure, save_figure, style
from simaccel.search.judge import mapping_of
from simaccel.study.experiment import simulate
from validation.flat import paper
from validation.flat.exhibit import HERE, Exhibit, Row, read, table
from validation.flat.paper import GRANULARITIES
from validation.flat.pictures import over_buffer
from validation.flat.points import Point
from validation.flat.table_1 import UNLIMITED
from validation.flat.ways import ATTENTION, table_1_tree

MODEL, LENGTH = "BERT", 512
ALL_HELD = (("os", "os"), ("ws", "ws"))


def tiles() -> list[tuple[str, int, int]]:
    """Return (granularity, heads, rows) of all tiles that are drawn."""
    model, batch = paper.FITTED[MODEL], paper.BATCH
    found = [("r", 1, rows) for rows in range(1, LENGTH)]
    found += [("h", heads, LENGTH) for heads in range(1, model.heads)]
    samples = [1 << at for at in range(batch.bit_length()) if 1 << at < batch]
    found += [("b", model.heads * count, LENGTH) for count in samples]
    return [*found, ("m", model.heads * batch, LENGTH)]


def rows() -> list[Row]:
    """Bound all tiles; run those that no other beats in both."""
    accelerator = load_accelerator("edge", UNLIMITED)
    point = Point(accelerator="edge", model=paper.FITTED[MODEL], length=LENGTH, way="table-1")
    work = point.workload().select_operators(ATTENTION)
    plain = Group(operators=ATTENTION, tree=(), merged=mergeable(work, ATTENTION))
    ideal = work.macs / accelerator.array.pes
    results = []
    for granularity, heads, count in tiles():
        for held in ALL_HELD:
            tree = table_1_tree(heads, count, held)  # type: ignore[arg-type]
            mapping = mapping_of(work, "table-1", [replace(plain, tree=tree)])
            predicted = predict(work, mapping, accelerator)
            row = {
                "granularity": granularity,
                "heads": heads,
                "rows": count,
                "array_holds": held[0],
                "buffer_bytes": predicted.buffer_bytes,
                "at_most": ideal / predicted.bound_cycles,
            }
            results.append((row, mapping))
    best = {id(row) for row in frontier([row for row, _ in results])}
    return [
        row
        | {"machine": simulate(work, accelerator, mapping).utilisation if id(row) in best else ""}
        for row, mapping in results
    ]


def frontier(found: Sequence[Row]) -> list[Row]:
    """Return the rows of which none needs less and gets more."""
    best: list[Row] = []
    for row in sorted(found, key=lambda one: (one["buffer_bytes"], -one["at_most"])):
        if not best or row["at_most"] > best[-1]["at_most"]:
            best.append(row)
    return best


def text(results: Sequence[Row]) -> str:
    """Return a granularity's number of points, and its best."""
    lines = []
    for granularity in reversed(GRANULARITIES):
        granularity_rows = [row for row in results if row["granularity"] == granularity]
        top = max(granularity_rows, key=lambda row: row["at_most"])
        least = min(row["buffer_bytes"] for row in granularity_rows)
        lines.append(
            (
                granularity.upper(),
                len(granularity_rows),
                f"{least / 1e6:.2f} MB",
                f"{top['at_most']:.3f} at {top['buffer_bytes'] / 1e6:.2f} MB",
            )
        )
    run = [row for row in results if row["machine"] != ""]
    apart = max(1 - row["machine"] / row["at_most"] for row in run)
    chosen = [row for row in run if row["at_most"] >= 0.95 * run[-1]["at_most"]]
    first = chosen[0]
    told = (
        f"{len(results)} designs; {len(run)} on the frontier, whose utilisation on the machine is "
        f"below what the bound leaves by {apart:.3%} at most. The smallest buffer within 5% of the "
        "best: "
        f"{first['buffer_bytes'] / 1e3:.0f} KB, {first['rows']} rows, "
        f"utilisation {first['machine']:.3f}."
    )
    return f"{told}\n\n" + table(("granularity", "designs", "least buffer", "best"), lines)


def draw(results: Sequence[Row], path: Path) -> None:
    """Draw all designs, the frontier as the machine runs it, and flex of figure 9."""
    with style():
        figure = new_figure(SINGLE_COLUMN_INCHES * 1.4, 3.0)
        axes = figure.subplots()
        for granularity in reversed(GRANULARITIES):
            granularity_rows = [row for row in results if row["granularity"] == granularity]
            xs = [row["buffer_bytes"] for row in granularity_rows]
            label = f"FLAT-{granularity.upper()}"
            axes.plot(xs, [row["at_most"] for row in granularity_rows], ".", ms=3, label=label)
        run = [row for row in results if row["machine"] != ""]
        places = [row["buffer_bytes"] for row in run]
        axes.plot(places, [row["machine"] for row in run], "k-", linewidth=0.8, label="machine")
        others = [row for row in read(HERE / "fig_9.csv") if not row["way"].startswith("flat")]
        others = [row for row in others if row["machine"] != ""]
        xs = [row["occupied_bytes"] for row in others]
        axes.plot(xs, [row["machine"] for row in others], "x", ms=4, label="naive, flex (fig. 9)")
        axes.set(ylim=(0, 1.02), ylabel="utilisation, L and A")
        axes.legend(fontsize="x-small")
        over_buffer(axes, f"{MODEL}, {LENGTH} tokens, edge")
        save_figure(figure, path, force=True)


EXHIBIT = Exhibit("fig_14", rows, text, draw)

if __name__ == "__main__":
    EXHIBIT.make()
