"""Machine against closed form over seeded draws of experiments: tables, CSV and pictures.

``python -m validation.analytic.run [points] [nests] [small] [--count N]`` measures the draws that
are named, or all. A draw in its own size writes its CSV and picture and the figures between its
markers in ``README.md``; one that is stopped goes on where it was, as long as the sources are the
same. It fails where an exact figure differs (MACs, bytes by tensor and level),
where a run is shorter than its resource bound or holds more than the footprint, or where the errors
leave the tolerances.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from validation.analytic.compared import HEAD, draw_scatter, figures, judge, markdown, measure_all
from validation.analytic.draws import ASKED, DRAWS, HERE, WHAT_IFS, Draw, Outcome, write_csv
from validation.analytic.readme import write_figures
from validation.frozen.run import ROOT, fingerprint

PART: Final = ROOT / "out" / "analytic"
"""What was measured of a draw that isn't whole yet."""
_WORST = 10


def summary(outcomes: Sequence[Outcome]) -> str:
    """Give the figures by group and the worst points as Markdown."""
    ran = [one for one in outcomes if one.compared.cycles]
    names = sorted({one.group for one in ran})
    groups = {name: [one.compared for one in ran if one.group == name] for name in names}
    rows = [figures(name, found) for name, found in groups.items()]
    rows.insert(0, figures("all", [one.compared for one in ran]))
    worst = sorted(ran, key=lambda one: -abs(one.compared.error))[:_WORST]
    lines = [
        f"{len(outcomes):,} points drawn, {len(ran):,} run.",
        "",
        markdown(HEAD, rows),
        "",
        "The worst ten:",
        "",
        markdown(_head(ran), [_line(one) for one in worst]),
    ]
    if asked := [one for one in ran if one.columns.get(next(iter(WHAT_IFS)))]:
        lines += ["", _reasons(asked)]
    return "\n".join(lines)


def _head(outcomes: Sequence[Outcome]) -> list[str]:
    others = [name for name in WHAT_IFS if outcomes and name in outcomes[0].columns]
    return ["error", *others, "cycles", "point", "waits", "group"]


def _line(one: Outcome) -> list[str]:
    found = one.compared
    others = [str(one.columns[name]) for name in WHAT_IFS if name in one.columns]
    cells = [f"{float(text):+.1%}" if text else "" for text in others]
    waits = f"{found.idle:.0%}, {found.waits}"
    return [
        f"{found.error:+.1%}",
        *cells,
        f"{found.cycles:,}",
        one.text,
        waits,
        found.worst_group,
    ]


def _reasons(asked: Sequence[Outcome]) -> str:
    """Say how many errors go away without what may be their reason."""
    rows = []
    for name in WHAT_IFS:
        gone = sum(abs(float(str(one.columns[name]))) <= ASKED for one in asked)
        rows.append([name, f"{gone:,}", f"{gone / len(asked):.0%}"])
    left = sum(
        all(abs(float(str(one.columns[name]))) > ASKED for name in WHAT_IFS) for one in asked
    )
    rows.append(["none of these", f"{left:,}", f"{left / len(asked):.0%}"])
    return (
        f"Of {len(asked):,} points beyond {ASKED:.0%}, so many are within it in another "
        f"machine:\n\n{markdown(['', 'points', 'part'], rows)}"
    )


def check(one: Draw, count: int | None, processes: int | None) -> int:
    """Measure a draw, write, judge: 1 if anything is wrong."""
    points = one.points(count or one.count)
    kept = PART / f"{one.name}-{fingerprint()}"
    outcomes = measure_all(one.measure, points, one.name, processes, kept)
    ran = [outcome.compared for outcome in outcomes if outcome.compared.cycles]
    text = summary(outcomes)
    print(f"{one.name}\n\n{text}\n")
    if count in (None, one.count):
        write_csv(outcomes, one.table)
        draw_scatter(ran, one.picture)
        write_figures(one.name, text, HERE / "README.md")
        shutil.rmtree(kept)
    wrong = [outcome for outcome in outcomes if outcome.compared.faults]
    for outcome in wrong:
        sys.stderr.write(f"{outcome.text}: {outcome.compared.faults}\n")
    left = judge(ran, one.median, one.p95, one.worst)
    for words in left:
        sys.stderr.write(f"{one.name}: {words}\n")
    return int(bool(wrong or left))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write, judge."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [one.name for one in DRAWS]
    parser.add_argument("draws", nargs="*", metavar="DRAW", help=" ".join(names))
    parser.add_argument("--count", type=int, metavar="N")
    parser.add_argument("--processes", type=int, metavar="N")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.draws) - set(names):
        parser.error(f"no draw {' '.join(sorted(unknown))}; there are {' '.join(names)}")
    chosen = [one for one in DRAWS if not asked.draws or one.name in asked.draws]
    return max([check(one, asked.count, asked.processes) for one in chosen])


if __name__ == "__main__":
    sys.exit(main())
