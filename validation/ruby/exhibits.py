"""The rows of each exhibit: ours, beside Timeloop's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simaccel.search.effort import Effort, Strategy
from simaccel.search.mapspace.chains import MAPSPACES, Mapspace, SplitLimit, chain_table, choices
from simaccel.search.mapspace.mapping_target import MappingTarget
from simaccel.search.mapspace.nests import NestResult
from validation.ruby.problems import (
    FILTER_ROWS,
    ROW_STATIONARY,
    alexnet2,
    best,
    conv3,
    edp,
    energy_uj,
    eyeriss,
    matmul,
    rank_one,
    target,
    toy,
)
from validation.ruby.small_runs import differs
from validation.ruby.timeloop import in_our_model, results

Row = dict[str, object]
TABLE_SIZES = (3, 9, 27, 64, 100, 113, 127, 128, 512, 1000, 1024, 2048, 4095, 4096)
"""Ranks of Table I: the paper says 3 to 4096."""
FIG8_SIZES = tuple(range(16, 161))
SEARCH = Effort(exhaustive=4_000_000, patience=400_000)


@dataclass(frozen=True)
class Case:
    """One problem and mapspace, and the run of Timeloop's that has it too."""

    name: str
    goal: MappingTarget
    timeloop: str = ""


def figures(case: Case, mapped: NestResult) -> Row:
    """Give one row: what was found here, and there."""
    row: Row = {
        "case": case.name,
        "mapspace": case.goal.strategy,
        "mappings": mapped.found.size,
        "complete": mapped.found.complete,
        "cycles": mapped.cycles,
        "utilisation": round(mapped.utilisation, 4),
        "energy_uj": _digits(energy_uj(mapped)),
        "edp_j_cycles": _digits(edp(mapped)),
    }
    row["machine_differs"] = differs(mapped)
    theirs = results()[case.timeloop] if case.timeloop else None
    ours_of_theirs = None if theirs is None else in_our_model(case.goal, theirs["mapping"])
    row["timeloop_cycles"] = "" if theirs is None else int(theirs["cycles"])
    row["timeloop_energy_uj"] = "" if theirs is None else float(theirs["energy_uJ"])
    row["timeloop_edp_j_cycles"] = "" if theirs is None else float(theirs["edp_J_cycle"])
    row["timeloop_mapping_in_our_model_cycles"] = (
        "" if ours_of_theirs is None else ours_of_theirs.cycles
    )
    row["timeloop_mapping_in_our_model_edp"] = (
        "" if ours_of_theirs is None else _digits(ours_of_theirs.edp * 1e-12)
    )
    row["timeloop_mapping_fits_ours"] = "" if ours_of_theirs is None else ours_of_theirs.valid
    return row


def _digits(value: float) -> float:
    return float(f"{value:.6g}")


def toys() -> list[Case]:
    """Give figures 4 and 5, and the toy problems that Timeloop solved."""
    found = []
    for size, pes in ((100, 6), (113, 16), (127, 16), (128, 16)):
        for strategy, ending in (("pfm", "uber"), ("ruby-s", "ruby")):
            goal = target(rank_one(size), toy(pes), strategy)  # type: ignore[arg-type]
            found.append(Case(f"D={size}, {pes} PEs", goal, f"r1_{size}_{pes}_{ending}"))
    for pes in (5, 16):
        for strategy, name in (("pfm", f"mm100_{pes}_uber"), ("ruby-s", f"mm100_{pes}_rubyS_long")):
            goal = target(matmul(), toy(pes), strategy)  # type: ignore[arg-type]
            found.append(Case(f"100^3, {pes} PEs", goal, name))
    return found


def layer(patience: int = SEARCH.patience) -> list[Row]:
    """Search AlexNet's layer 2 under the constraints of Fig. 9."""
    rows = []
    for case in layers():
        effort = Effort(exhaustive=SEARCH.exhaustive, patience=patience)
        rows.append(figures(case, best(case.goal, effort)))
    return rows


def layers() -> list[Case]:
    """Give PFM, the hand-made mapping's columns, and Ruby-S of Fig. 9."""

    def case(name: str, strategy: Strategy, timeloop: str, *asked: str) -> Case:
        goal = target(alexnet2(), eyeriss(), strategy, ROW_STATIONARY, asked)
        return Case(name, goal, timeloop)

    hand_made = ("cols=Q", "cols.Q=14")
    return [
        case("PFM (b)", "pfm", "eyeX_Q3_M4", *FILTER_ROWS),
        case("hand-made (a): a row of Q", "ruby-s", "eyeX_Q14_M1", *FILTER_ROWS, *hand_made),
        case("Ruby-S (c, d)", "ruby-s", "eyeX_Q7_M2", *FILTER_ROWS),
        case("any rows, PFM", "pfm", "eye_uber_edp"),
        case("any rows, Ruby-S", "ruby-s", "eye_ruby_edp"),
    ]


def table_1(sizes: tuple[int, ...] = TABLE_SIZES) -> list[Row]:
    """Count the chains of one rank over two memories and a fan-out of 9 between them."""
    rows = []
    for size in sizes:
        row: Row = {"rank": size}
        for fanout in (9, None):
            splits = (SplitLimit(), SplitLimit(spatial=True, most=fanout))
            for mapspace in MAPSPACES:
                name = mapspace if fanout else f"{mapspace}, any fan-out"
                row[name] = chain_table(size, splits, mapspace).count
                row[f"{name}, enumerated"] = _enumerated(size, splits, mapspace)
        row["equation 5, nothing pruned"] = sum(-(-size // p) for p in range(1, size + 1))
        rows.append(row)
    return rows


def _enumerated(size: int, splits: tuple[SplitLimit, ...], mapspace: Mapspace) -> int:
    if not splits:
        return 1
    pieces = choices(size, splits[0], mapspace).tolist()
    return sum(_enumerated(-(-size // p), splits[1:], mapspace) for p in pieces)


def fig_8(sizes: tuple[int, ...] = FIG8_SIZES) -> list[Row]:
    """Search each size on 16 PEs in three ways; EDP over that of Ruby-S."""
    rows = []
    for size in sizes:
        solutions = {
            strategy: best(target(rank_one(size), toy(16), strategy))
            for strategy in ("pfm", "padded", "ruby-s")
        }
        row: Row = {"d": size}
        for strategy, mapped in solutions.items():
            row[f"{strategy} cycles"] = mapped.cycles
            row[f"{strategy} edp"] = _digits(edp(mapped))
        for strategy in ("pfm", "padded"):
            row[f"{strategy} over ruby-s"] = _digits(
                edp(solutions[strategy]) / edp(solutions["ruby-s"])
            )
        row["ineffectual macs"] = solutions["padded"].ineffectual
        row["machine_differs"] = "; ".join(filter(None, map(differs, solutions.values())))
        rows.append(row)
    return rows


FIG7 = ("matmul, 5 PEs", "matmul, 16 PEs", "conv 3x3, 8 PEs", "conv 3x3, 15 PEs")


def fig_7_goal(name: str, strategy: Strategy) -> MappingTarget:
    """Give one of the four cases of Fig. 7; convolutions split only C and M over the PEs."""
    problem, _, pes = name.partition(", ")
    accelerator = toy(int(pes.split()[0]))
    if problem == "matmul":
        return target(matmul(), accelerator, strategy)
    return target(conv3(), accelerator, strategy, ("cols=C,M",))


def fig_7(repeats: int, mappings: int = 10_000) -> list[Row]:
    """Draw mappings at random and follow the best: the mean over repeats, in J cycles."""
    rows = []
    grid = np.unique(np.geomspace(1, mappings, 60).astype(int))
    for name in FIG7:
        for strategy in MAPSPACES:
            goal = fig_7_goal(name, strategy)
            curves = np.array([_curve(goal, seed, mappings, grid) for seed in range(repeats)])
            for at, value in zip(grid.tolist(), curves.mean(axis=0).tolist(), strict=True):
                rows.append(
                    {"case": name, "mapspace": strategy, "mappings": at, "edp": _digits(value)}
                )
    return rows


def _curve(goal: MappingTarget, seed: int, mappings: int, grid: np.ndarray) -> list[float]:
    effort = Effort(exhaustive=0, patience=10**9, most=mappings, seed=seed, refine=False)
    counts, values = zip(*best(goal, effort).found.curve, strict=True)
    place = np.searchsorted(counts, grid, side="right") - 1
    return [values[at] * 1e-12 for at in place.tolist()]
