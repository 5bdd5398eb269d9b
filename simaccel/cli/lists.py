"""Options of `compare` that take comma-separated lists, all combinations of which run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simaccel.cli.experiment_options import ExperimentOptions, warn_of_unused_fields
from simaccel.cli.settings import fault, listed_values
from simaccel.errors import InputError, gather, require_none
from simaccel.numbers import is_logarithmic
from simaccel.study.points import ACCELERATOR, Axis, Point, Setting
from simaccel.study.space import with_mapping

if TYPE_CHECKING:
    from simaccel.cli.output import OutputFiles
    from simaccel.study.figure_table import Figure

_LISTED: Final = ("batch", "prompt", "kv_len", "phase")
_DEGREES: Final = ("tensor_parallel", "data_parallel", "expert_parallel")
_SEARCH_FIELDS: Final = (*_DEGREES, "objective")
_MOST: Final = 1000


Variant = tuple[ExperimentOptions, tuple[Setting, ...]]
"""The options of one combination of the lists' values, and these values."""


def variants(experiment: ExperimentOptions) -> list[Variant]:
    """Return the options of each combination of the lists; InputError if these are too many."""
    lists: list[tuple[str, tuple[Setting, ...]]] = []
    hw = [] if Path(experiment.hw).exists() else listed_values("--hw", experiment.hw)
    if len(hw) > 1:
        lists.append(
            ("hw", tuple(Setting(ACCELERATOR, name, name, place=at) for at, name in enumerate(hw)))
        )
    for name in (*_LISTED, *_SEARCH_FIELDS):
        option = f"--{name.replace('_', '-')}"
        holder = experiment.search if name in _SEARCH_FIELDS else experiment.workload
        values = listed_values(option, getattr(holder, name) or "")
        if len(values) > 1:
            lists.append((name, _list_settings(name, values)))
    if prod(len(points) for _, points in lists) > _MOST:
        named = ", ".join(name for name, _ in lists)
        raise InputError([fault("lists", named, f"at most {_MOST:,} runs together")])
    names = [name for name, _ in lists]
    return [
        (_apply_points(experiment, dict(zip(names, points, strict=True))), points)
        for points in product(*(points for _, points in lists))
    ]


def sweep_chips(
    experiment: ExperimentOptions, sweep: tuple[str, ...]
) -> tuple[ExperimentOptions, tuple[str, ...]]:
    """Return the options and the sweeps, with a list of ``--chips`` turned into a sweep."""
    lists = tuple(
        text for text in experiment.overrides if text.startswith("chips=") and "," in text
    )
    others = tuple(text for text in experiment.overrides if text not in lists)
    return replace(experiment, overrides=others), (*sweep, *lists)


def _list_settings(name: str, values: Sequence[str]) -> tuple[Setting, ...]:
    """Describe the values of a list; numbers lie on an axis, names have none."""
    from simaccel.study.parameters import parameter_of

    option = name.replace("_", "-")
    numbers = all(value.isascii() and value.isdecimal() for value in values)
    known = parameter_of(option)
    axis = known.axis if known else Axis(option, name, f"{option} (tokens)")
    if not numbers:
        axis = replace(axis, label=option, named=True)
        return tuple(Setting(axis, value, value, place=at) for at, value in enumerate(values))
    places = [int(value) for value in values]
    axis = replace(axis, log=is_logarithmic(min(places), max(places)))
    return tuple(Setting(axis, at, str(at), place=at) for at in places)


def _apply_points(experiment: ExperimentOptions, points: dict[str, Setting]) -> ExperimentOptions:
    chosen = {name: str(point.value) for name, point in points.items()}
    hw = chosen.pop("hw", experiment.hw)
    of_search = {name: chosen.pop(name) for name in _SEARCH_FIELDS if name in chosen}
    workload = replace(experiment.workload, **chosen)  # type: ignore[arg-type]
    search = replace(experiment.search, **of_search)  # type: ignore[arg-type]
    return replace(experiment, hw=hw, workload=workload, search=search)


@dataclass(frozen=True)
class WantedRows:
    """The options that describe the rows of a comparison, beside those of the experiment."""

    files: OutputFiles
    sweep: tuple[str, ...]
    each: str | None
    mappings: tuple[str, ...]
    stages: str | None
    micro_batches: int | None

    def points(self, experiment: ExperimentOptions) -> list[Point]:
        """Return a point for each combination of lists, settings, lengths and dataflows.

        A fault that all values of the lists share is reported once.
        """
        first, *others = variants(experiment)
        own = self._points_of(first)
        made = gather(*(partial(self._points_of, other) for other in others))
        every = [*own, *(point for points in made for point in points)]
        warn_of_unused_fields([*experiment.overrides, *self.sweep], [p.accelerator for p in every])
        return stage(every, self.stages, self.micro_batches)

    def _points_of(self, variant: Variant) -> list[Point]:
        from simaccel.cli.sweep import read_sweeps, swept_points

        experiment, settings = variant
        workload = experiment.workload.for_experts(None, self.sweep)
        experiment = replace(experiment, workload=workload)
        seq_len = experiment.workload.seq_len
        lengths = [None] if seq_len is None else listed_values("--seq-len", seq_len)
        counts = {"pipeline_parallel": self.stages, "micro_batches": self.micro_batches}
        mapping = ", ".join(self.mappings)
        _, accelerator, names, axes, estimates, *workloads = gather(
            self.files.require,
            experiment.accelerator,
            lambda: experiment.names(several=True),
            lambda: read_sweeps(self.sweep, experiment, **counts, mapping=mapping or None),
            experiment.workload.estimates,
            *(replace(experiment.workload, seq_len=length).read for length in lengths),
        )
        from simaccel.verbs.comparing import operator_points

        flows = [axis for axis in axes if axis[0].axis.name == "dataflow"]
        names = [setting.text for axis in flows for setting in axis] or names
        axes = [axis for axis in axes if axis not in flows]
        bases = (
            swept_points(axes, workloads, accelerator)
            if axes
            else [
                point
                for workload in workloads
                for point in operator_points(workload, accelerator, self.each, estimates)
            ]
        )
        bases = [replace(base, settings=(*base.settings, *settings)) for base in bases]
        return [
            way.place_workloads()
            for point in (base.place_workloads() for base in bases)
            for way in (
                *points_of_mappings(point, self.mappings),
                *points_of_schedulers(point, self._names_of(point, names, experiment), experiment),
            )
        ]

    def _names_of(
        self, point: Point, names: Sequence[str], experiment: ExperimentOptions
    ) -> Sequence[str]:
        """Return the dataflows or mapspaces of a point: ``names``, where some are given.

        Otherwise none beside mappings, else those of `compared_dataflows`.
        """
        if not experiment.names_nothing or any(text.startswith("dataflow=") for text in self.sweep):
            return names
        if self.mappings:
            return []
        from simaccel.schedulers import compared_dataflows

        lists = (experiment.workload.seq_len, experiment.search.stationarity)
        differ = point.settings or any("," in (text or "") for text in lists)
        varied = self.stages is not None or bool(differ)
        return compared_dataflows(point.accelerator, point.workload, varied=varied)


def points_of_schedulers(
    point: Point, names: Sequence[str], experiment: ExperimentOptions
) -> list[Point]:
    """Return a point for each dataflow, mapspace and stationarity."""
    held_names = experiment.search.stationarity
    held = listed_values("--stationarity", held_names) if held_names else [None]
    return [
        with_mapping(
            replace(
                point,
                dataflow=name,
                options=replace(experiment.options, stationarity=stationarity),  # type: ignore[arg-type]
                label=f"{name} {stationarity}" if len(held) > 1 else "",
            )
        )
        for name in names
        for stationarity in held
    ]


def stage(points: Sequence[Point], stages: str | None, micro_batches: int | None) -> list[Point]:
    """Return the points as pipelines of each number of stages; refuse micro-batches without any."""
    if stages is None:
        every = [
            replace(point, micro_batches=point.micro_batches or micro_batches) for point in points
        ]
        alone = [each.micro_batches for each in every if each.stages is None and each.micro_batches]
        allowed = "nothing without --pipeline-parallel"
        require_none(fault("--micro-batches", count, allowed) for count in alone[:1])
        return every
    values = listed_values("--pipeline-parallel", stages)
    settings = _list_settings("pipeline_parallel", values) if len(values) > 1 else ()
    return [
        replace(
            point,
            settings=(*point.settings, *settings[at : at + 1]),
            stages=int(value),
            micro_batches=point.micro_batches or micro_batches,
        )
        for point in points
        for at, value in enumerate(values)
    ]


def points_of_mappings(point: Point, files: Sequence[str]) -> list[Point]:
    """Return a point for each mapping file.

    Raises:
        SimaccelError: it can't be read, or is for another workload.
    """
    from simaccel.mapping.files import load_mapping

    return [
        replace(point, dataflow=load_mapping(Path(file), point.workload), label=Path(file).name)
        for file in files
    ]


def metrics_of(texts: Sequence[str]) -> list[Figure]:
    """Return the metrics of comma-separated lists; InputError for unknown names."""
    if not texts:
        return []
    from simaccel.study.figure_table import METRICS

    names = listed_values("--metric", ",".join(texts), METRICS)
    return [METRICS[name] for name in names]


def require_tokens(metrics: Sequence[Figure], points: Sequence[Point]) -> None:
    """Refuse metrics of tokens if no run has any, as runs of a part of a model."""
    from simaccel.workload.language.phase import tokens_of

    if all(tokens_of(point.workload) is None for point in points):
        allowed = "other metrics for a part of a model; with --scope model it has tokens or images"
        require_none(fault("--metric", one.name, allowed) for one in metrics if one.of_tokens)


def refuse_lists(points: Sequence[Point], beside: str, sweep: Sequence[str]) -> None:
    """Refuse lists for which an exhibit or a front (``beside``: the option) has no columns.

    ``sweep``: what else has several values.
    """
    names = dict.fromkeys(setting.axis.name for point in points for setting in point.settings)
    swept, allowed = (
        {text.partition("=")[0].strip() for text in sweep},
        f"one value beside {beside}",
    )
    others = ("hw" if name == ACCELERATOR.name else name for name in names if name not in swept)
    require_none(fault(f"--{name}", "a list", allowed) for name in others)
    lengths = dict.fromkeys(str(point.seq_len) for point in points)
    if len(lengths) > 1 and beside == "--pareto":
        require_none([fault("--seq-len", ",".join(lengths), f"one length beside {beside}")])
