"""Compare with MAESTRO's tool, run its dataflows on the machine, make its exhibits.

Writes the CSV files, the pictures and the figures of the README. Fails if a row that the tool could
run differs in any column.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from validation.maestro import designs, exhibits, machine, pictures, silicon
from validation.maestro.reference import all_runs, differences, tables

FOLDER = Path(__file__).parent
_START, _END = "<!-- figures -->", "<!-- end of figures -->"


def released() -> tuple[list[str], int]:
    """Compare all rows that the tool could run; give a table and the number of differences."""
    lines = ["| table | rows | of them MACs right | columns that differ |", "|---|---|---|---|"]
    wrong = 0
    for table in tables():
        counts: Counter[str] = Counter()
        for runs in all_runs([table]):
            if runs.rows[0]["status"] != "ok":
                continue
            counts["rows"] += len(runs.rows)
            counts["trusted"] += sum(row["macs_match"] == "1" for row in runs.rows)
            counts["wrong"] += len(differences(runs))
        lines.append(f"| {table} | {counts['rows']} | {counts['trusted']} | {counts['wrong']} |")
        wrong += counts["wrong"]
    return lines, wrong


def main() -> int:
    """Make everything; return 1 if something differs that must not."""
    lines, wrong = released()
    sections = {"As released, all rows": lines}
    eyeriss = silicon.compare()
    machine.write(eyeriss, FOLDER / "fig_9.csv")
    pictures.draw_fig_9(eyeriss, FOLDER / "fig_9.png")
    sections["Fig. 9: Eyeriss on AlexNet, batch 4"] = silicon.table(eyeriss)
    rows = list(machine.compare())
    machine.write(rows, FOLDER / "machine.csv")
    pictures.draw_machine(machine.ran(rows), FOLDER / "machine.png")
    sections["Analysis / machine, total cycles (and range over layers)"] = machine.tables(rows)
    sections["All runs"] = machine.summary(rows)
    sections["The ten farthest apart"] = machine.worst(rows)
    sections["The ten where the analysis is most optimistic"] = machine.worst(
        [row for row in machine.ran(rows) if row["analysis_over_machine"] < 1]
    )
    sections |= _exhibits(rows)
    sections |= _designs()
    _write(sections)
    for title, text in sections.items():
        print(title, *text, "", sep="\n")
    return 1 if wrong else 0


def _exhibits(rows: list[machine.Row]) -> dict[str, list[str]]:
    layers = exhibits.measured(rows)
    ten, operators = list(exhibits.fig_10(layers)), list(exhibits.fig_10_operators(layers))
    for name, figures in (("fig_10", ten), ("fig_10_operators", operators)):
        machine.write(figures, FOLDER / f"{name}.csv")
        pictures.draw_fig_10(figures, FOLDER / f"{name}.png")
    reuse = list(exhibits.fig_11_and_12())
    machine.write(reuse, FOLDER / "fig_11_12.csv")
    pictures.draw_fig_11(reuse, FOLDER / "fig_11.png")
    pictures.draw_fig_12(reuse, FOLDER / "fig_12.png")
    five = exhibits.table_5()
    machine.write(five, FOLDER / "table_5.csv")
    return {
        "Fig. 10: networks, 256 PEs, 32 elements per cycle": exhibits.fig_10_lines(ten),
        "Fig. 10 (f): operators of the paper's five networks": exhibits.fig_10_lines(operators),
        "Table 5: KC-P on VGG16 CONV2, 56 PEs in clusters of 8": exhibits.table_5_lines(five),
    }


def _designs() -> dict[str, list[str]]:
    points, best, told = designs.explore()
    machine.write(points, FOLDER / "fig_13.csv")
    machine.write(best, FOLDER / "fig_13_best.csv")
    pictures.draw_fig_13(points, best, FOLDER / "fig_13.png")
    count, seconds = designs.rate()
    told.append(
        f"\nPEs, bandwidth, L1 and L2 together: {count:,} designs in {seconds:.2f} s on one core, "
        f"{count / seconds / 1e6:.1f} million a second."
    )
    return {
        "Fig. 13: designs within 16 mm2 and 450 mW": told,
        "Fig. 13: the best designs": designs.best_lines(best, designs.best_on_the_machine(best)),
    }


def _write(sections: dict[str, list[str]]) -> None:
    """Put the figures between the marks of the README."""
    path = FOLDER / "README.md"
    before, _, rest = path.read_text(encoding="utf-8").partition(_START)
    _, _, after = rest.partition(_END)
    text = "\n\n".join(f"### {title}\n\n" + "\n".join(one) for title, one in sections.items())
    path.write_text(f"{before}{_START}\n\n{text}\n\n{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
