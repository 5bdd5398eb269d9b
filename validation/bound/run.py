"""How tight the lower bound is, over seeded draws of experiments: tables, CSV and pictures.

``python -m validation.bound.run [points] [nests] [small] [--count N]`` measures the draws that
are named, or all. A draw in its own size writes its CSV and picture and the figures between its
markers in ``README.md``; one that is stopped goes on where it was, as long as the sources are the
same. It fails where an exact figure differs (MACs, bytes by tensor and level, the work of array
and SFU), or where a run is shorter than its bound.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from statistics import median
from typing import Final

from validation.bound.draws import DRAWS, HERE, WHAT_IFS, WHOLE, WIDE, Draw, Outcome, write_csv
from validation.bound.gaps import HEAD, draw_gaps, figures, markdown, measure_all
from validation.bound.readme import write_figures
from validation.frozen.run import ROOT, fingerprint

PART: Final = ROOT / "out" / "bound"
"""What was measured of a draw that isn't whole yet."""
_WORST = 10


def summary(points: int, outcomes: Sequence[Outcome]) -> str:
    """Give the figures by kind and the widest gaps as Markdown."""
    ran = [outcome for outcome in outcomes if outcome.gap.cycles]
    alone = [outcome for outcome in ran if outcome.kind != WHOLE]
    kinds = {name: [outcome.gap for outcome in ran if outcome.kind == name] for name in _kinds(ran)}
    rows = [figures("all", [outcome.gap for outcome in alone])]
    rows += [figures(name, kind) for name, kind in kinds.items()]
    worst = sorted(ran, key=lambda outcome: -outcome.gap.gap)[:_WORST]
    lines = [
        f"{points:,} points drawn, {len(ran):,} mappings run.",
        "",
        markdown(HEAD, rows),
        "",
        "The widest ten:",
        "",
        markdown(_head(ran), [_line(outcome) for outcome in worst]),
    ]
    wide = [outcome for outcome in ran if outcome.gap.gap > WIDE]
    if wide:
        lines += ["", _reasons(wide)]
    return "\n".join(lines)


def _kinds(ran: Sequence[Outcome]) -> list[str]:
    """Return the kinds, whole mappings at the end."""
    return sorted({one.kind for one in ran}, key=lambda name: (name == WHOLE, name))


def _head(outcomes: Sequence[Outcome]) -> list[str]:
    others = [name for name in WHAT_IFS if outcomes and name in outcomes[0].columns]
    return ["gap", *others, "cycles", "mapping", "waits", "bound"]


def _line(one: Outcome) -> list[str]:
    found = one.gap
    others = [str(one.columns[name]) for name in WHAT_IFS if name in one.columns]
    cells = [f"{float(text):.1%}" if text else "" for text in others]
    waits = f"{found.idle:.0%}, {found.waits}"
    return [f"{found.gap:.1%}", *cells, f"{found.cycles:,}", one.text, waits, found.terms]


def _reasons(wide: Sequence[Outcome]) -> str:
    """Say what is waited for where the gap is wide, and how many gaps go away without a reason."""
    waits = sorted({outcome.gap.waits for outcome in wide})
    rows = []
    for name in waits:
        gaps = [outcome.gap.gap for outcome in wide if outcome.gap.waits == name]
        rows.append([name, f"{len(gaps):,}", f"{median(gaps):.1%}", f"{max(gaps):.1%}"])
    text = f"Of {len(wide):,} gaps above {WIDE:.0%}, by what the busier unit waits for most:\n\n"
    text += markdown(["waits for", "mappings", "median gap", "widest"], rows)
    if not set(WHAT_IFS) <= set(wide[0].columns):
        return text
    within = {
        name: [float(str(outcome.columns[name])) <= WIDE for outcome in wide] for name in WHAT_IFS
    }
    rows = [
        [name, f"{sum(gone):,}", f"{sum(gone) / len(wide):.0%}"] for name, gone in within.items()
    ]
    none = sum(not any(gone) for gone in zip(*within.values(), strict=True))
    rows.append(["none of these", f"{none:,}", f"{none / len(wide):.0%}"])
    text += f"\n\nWithin {WIDE:.0%} in another machine:\n\n"
    return text + markdown(["", "mappings", "part"], rows)


def check(draw: Draw, count: int | None, processes: int | None, *, write: bool) -> int:
    """Measure a draw, write: 1 if anything is wrong."""
    points = draw.points(count or draw.count)
    kept = PART / f"{draw.name}-{fingerprint()}"
    drawn_outcomes = measure_all(draw.measure, points, draw.name, processes, kept)
    outcomes = [outcome for each in drawn_outcomes for outcome in each]
    text = summary(len(points), outcomes)
    print(f"{draw.name}\n\n{text}\n")
    if write or count in (None, draw.count):
        write_csv(outcomes, draw.table)
        ran = [outcome.gap for outcome in outcomes if outcome.gap.cycles]
        draw_gaps(ran, draw.picture)
        write_figures(draw.name, text, HERE / "README.md")
        shutil.rmtree(kept)
    wrong = [outcome for outcome in outcomes if outcome.gap.faults]
    for outcome in wrong:
        sys.stderr.write(f"{outcome.text}: {outcome.gap.faults}\n")
    return int(bool(wrong))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = [draw.name for draw in DRAWS]
    parser.add_argument("draws", nargs="*", metavar="DRAW", help=" ".join(names))
    parser.add_argument("--count", type=int, metavar="N")
    parser.add_argument("--processes", type=int, metavar="N")
    parser.add_argument("--write", action="store_true", help="write a draw of another size, too")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.draws) - set(names):
        parser.error(f"no draw {' '.join(sorted(unknown))}; there are {' '.join(names)}")
    chosen = [draw for draw in DRAWS if not asked.draws or draw.name in asked.draws]
    write = asked.write
    return max([check(draw, asked.count, asked.processes, write=write) for draw in chosen])


if __name__ == "__main__":
    sys.exit(main())
