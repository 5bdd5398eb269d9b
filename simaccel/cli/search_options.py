"""The options of a mapspace and of its search."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, cast

import click

from simaccel.cli.choices import OBJECTIVES, PATIENCE, STATIONARITIES, STRATEGIES, WITHIN
from simaccel.cli.settings import OF_CHIPS, OF_SEARCH, fault, listed_values, option
from simaccel.errors import require_none
from simaccel.search.effort import Effort, Strategy

if TYPE_CHECKING:
    from simaccel.hardware import Stationarity
    from simaccel.schedulers import Options
    from simaccel.search.effort import Objective

MAPSPACE: Final[Strategy] = "ruby-s"
"""The default mapspace."""


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The options of a search, as given."""

    mapspace: str | None = None
    objective: str | None = None
    within: float | None = None
    stationarity: str | None = None
    constraints: tuple[str, ...] = ()
    patience: int | None = None
    budget_seconds: float | None = None
    seed: int | None = None
    tensor_parallel: str | None = None
    data_parallel: str | None = None
    expert_parallel: str | None = None
    sequence_parallel: bool = False
    shard_weights: bool = False
    spread: tuple[str, ...] = ()

    def given_options(self) -> Iterator[tuple[str, object]]:
        """Yield the options that the user gave."""
        names = {"constraints": "--constrain"}
        for name, value in vars(self).items():
            if value is not False and value not in (None, ()):  # a number may be 0
                yield names.get(name, f"--{name.replace('_', '-')}"), value

    def strategies(self, default: Sequence[Strategy] = (MAPSPACE,)) -> list[Strategy]:
        """Return the mapspaces of a comma-separated list; InputError for unknown names."""
        if self.mapspace is None:
            return list(default)
        names = listed_values("--mapspace", self.mapspace, STRATEGIES)
        return [strategy for name in names for strategy in STRATEGIES if strategy == name]

    def strategy(self) -> Strategy:
        """Return the single mapspace."""
        first, *others = self.strategies()
        if others:
            allowed = "one mapspace; `simaccel compare` takes several"
            require_none([fault("--mapspace", self.mapspace, allowed)])
        return first

    def degree(self, name: str) -> int | None:
        """Return a degree of parallelism; of a list, the first."""
        text: str | None = getattr(self, name)
        return int(text.split(",")[0]) if text else None

    def parallel(self) -> dict[str, Any]:
        """Return the degrees of parallelism as fields of the scheduler's options."""
        names = ("tensor_parallel", "data_parallel", "expert_parallel")
        degrees = {name: self.degree(name) for name in names}
        switches = ("sequence_parallel", "shard_weights")
        return degrees | {name: getattr(self, name) for name in switches}

    def effort(self) -> Effort:
        """Return the effort of a search."""
        names = ("objective", "patience", "budget_seconds", "seed")
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        return Effort(**{name: value for name, value in given.items() if value is not None})

    def options(self, *, pipeline: bool, allow_overflow: bool = False) -> Options:
        """Return the options of the scheduler; of a list of stationarities they have none."""
        from simaccel.schedulers import Options

        held = self.stationarity if self.stationarity in STATIONARITIES else None
        return Options(
            pipeline=pipeline,
            objective=cast("Objective", self.objective or Options.objective),
            stationarity=cast("Stationarity | None", held),
            effort=self.effort(),
            constraints=self.constraints,
            patience=self.patience,
            **self.parallel(),
            spread=self.spread,
            allow_overflow=allow_overflow,
            tolerance=WITHIN if self.within is None else self.within,
        )

    def require_constraints(self) -> None:
        """Refuse constraints that can't be read."""
        from simaccel.hardware.dataflow import parse_constraints

        parse_constraints(self.constraints)


class _Share(click.ParamType[float]):
    """A share: a number, or a percentage."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:  # noqa: ANN401 - as click's own
        """Read it."""
        text = str(value).strip()
        number, percent = text.removesuffix("%"), text.endswith("%")
        try:
            found = float(number) / (100 if percent else 1)
        except ValueError:
            found = -1.0
        if not 0 <= found < 1:
            self.fail(f"got {text!r}; allowed: 0 to less than 100%, such as 1% or 0.01", param, ctx)
        return found


_COMPARE: Final = "`simaccel compare` takes a list"


class ListedValues(click.ParamType):  # type: ignore[type-arg]  # generic in its stubs only
    """An option type for one value of a pattern, or for a comma-separated list (`compare` only)."""

    def __init__(self, name: str, pattern: str, allowed: str) -> None:
        self.name = name
        self.pattern = pattern
        self.allowed = allowed

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value; click reports the allowed ones."""
        texts = [text.strip() for text in value.split(",")]
        command = None if ctx is None else ctx.command.name
        if len(texts) > 1 and command != "compare":
            axis = "" if param is None else str(param.opts[0])[2:]
            other = f"use --axis {axis}={value}" if command == "explore" else _COMPARE
            self.fail(f"{value!r} is several; {other}.", param, ctx)
        for text in texts:
            if not re.fullmatch(self.pattern, text):
                self.fail(f"{text!r} is not {self.allowed}.", param, ctx)
        return ",".join(texts)


DEGREES = ListedValues("degree", "[1-9][0-9]{0,3}", "a whole number from 1 to 9999")
_STATIONARITIES, _OBJECTIVES = (
    ListedValues(*(name, "|".join(values)), f"one of {', '.join(map(repr, values))}")
    for name, values in (("stationarity", STATIONARITIES), ("objective", OBJECTIVES))
)
FIELDS = tuple(field.name for field in fields(SearchOptions))
SEARCH_OPTIONS = (
    option(
        "--mapspace NAME",
        f"Search a mapspace: {', '.join(STRATEGIES)}. Default for spatial arrays: {MAPSPACE}.",
        OF_SEARCH,
    ),
    option(
        "--objective",
        "The figure to minimise. Default cycles; for mapspaces edp; for `compare` a list.",
        OF_SEARCH,
        type=_OBJECTIVES,
        metavar="|".join(OBJECTIVES),
    ),
    option(
        "--within SHARE",
        "Among all mappings whose cycles are within this share of the best, choose the "
        "one with least energy, bytes and footprint (with other objectives: the "
        f"fastest). Default {WITHIN:.0%}; 0 chooses the best; not for edp.",
        OF_SEARCH,
        type=_Share(),
    ),
    option(
        "--stationarity ws|os|is",
        "The operand that a systolic array holds. Default: the best; for mapspaces use "
        "--constrain; for `compare` a list.",
        OF_SEARCH,
        type=_STATIONARITIES,
    ),
    option(
        "--constrain LEVEL[.RANK]=..",
        "Limit a level of a mapspace: cols=Q,M, rows.S=5, 'pe.C<=4', buffer.order=M,C, "
        "buffer.keep=input; overrides the accelerator's dataflow. Limit a dataflow: "
        "dram.M=8 (pieces), 'dram.M<=8', dram=M,N, dram.order=M,N, rows=K, cols=N.",
        OF_SEARCH,
        to="constraints",
        multiple=True,
    ),
    option(
        "--patience N",
        "End a search after N mappings without improvement. Default for mapspaces: "
        f"{PATIENCE:,} valid tilings, each with all its loop orders; for dataflows: no limit,"
        " the search ends when bounds prove the result.",
        OF_SEARCH,
        type=click.IntRange(min=1),
    ),
    option(
        "--budget-seconds SECONDS",
        "End the search of a workload after this time, when each operator has a "
        "mapping. The result may then differ from run to run.",
        OF_SEARCH,
        type=click.FloatRange(min=0, min_open=True),
    ),
    option(
        "--seed N", "Seed of a random search (default 0).", OF_SEARCH, type=click.IntRange(min=0)
    ),
    option(
        "--tensor-parallel N",
        "On several chips: chips that share a layer, of a network its channels (default: all"
        " that data parallelism leaves).",
        OF_CHIPS,
        type=DEGREES,
    ),
    option(
        "--data-parallel N",
        "On several chips: groups of chips that share a batch, its sequences or images"
        " (default 1).",
        OF_CHIPS,
        type=DEGREES,
    ),
    option(
        "--expert-parallel N",
        "For mixtures of experts on several chips: groups of chips that share the "
        "experts (default 1).",
        OF_CHIPS,
        type=DEGREES,
    ),
    option(
        "--sequence-parallel",
        "For transformers on several chips: the chips that share a layer cut norms and "
        "residuals by tokens.",
        OF_CHIPS,
    ),
    option(
        "--shard-weights",
        "On several chips: weights of products that chips would have alike lie once on all "
        "of them, and are gathered before they are read.",
        OF_CHIPS,
    ),
    option(
        "--spread RANK=cores:N",
        "For several cores: spread this rank over N cores in every group where that is "
        "possible (default: the fastest way).",
        OF_CHIPS,
        multiple=True,
    ),
)
