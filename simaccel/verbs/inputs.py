"""Arguments of a call: their types, and names or objects of what runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as Map
from dataclasses import fields, replace
from functools import wraps
from inspect import signature
from numbers import Integral
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from simaccel.errors import Fault, InputError, require_none, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.load import build_accelerator
from simaccel.hardware.presets import Settings
from simaccel.importers.accelerators import load_accelerator
from simaccel.importers.workloads import load_workload
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.files import load_mapping, require_same
from simaccel.mapping.tree import Mapping
from simaccel.schedulers import Options, default_dataflow
from simaccel.search.effort import OBJECTIVES, Objective
from simaccel.study.documents import accelerator_document
from simaccel.study.placement import compile_for, gather_placed
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import Workload

WorkloadLike = Workload | str | Path
"""A workload, or what ``load_workload`` reads."""
AcceleratorLike = Accelerator | str | Path
"""An accelerator, or what ``load_accelerator`` reads."""
DataflowLike = Mapping | str | Path | None
"""A mapping, the path of its file, or the name of a dataflow or mapspace; None: the default."""


def as_workload(source: WorkloadLike) -> Workload:
    """Return a workload as it is, or load it.

    Raises:
        InputError: it is neither, it can't be read, or too much of its file is left out.
    """
    if isinstance(source, Workload | str | Path):
        workload = source if isinstance(source, Workload) else load_workload(source)
        workload.account.require_modelled("load_workload(..., allow_unmodelled=True)")
        return workload
    allowed = "a Workload (of build('bert'), gemm(...)), a name or the path of a file"
    raise InputError([Fault("simaccel", "workload", source, allowed)])


def as_accelerator(source: AcceleratorLike, settings: Settings = ()) -> Accelerator:
    """Return an accelerator as it is, or load it; ``settings`` override fields.

    Raises:
        InputError: it is neither, it can't be read, or too much of its file is left out.
    """
    options = {field.name for field in fields(Options)}
    require_none(
        Fault("settings", name, value, f"nothing; it is an option: options=Options({name}=...)")
        for name, value in (settings.items() if isinstance(settings, Map) else ())
        if name in options
    )
    if isinstance(source, Accelerator):
        accelerator = source
        if settings:  # what its file left out stays in its account
            document = accelerator_document(source)
            accelerator = build_accelerator(document, Path(source.name), settings, ())
            vars(accelerator)["account"] = source.account
    elif isinstance(source, str | Path):
        accelerator = load_accelerator(source, settings)
    else:
        allowed = "an Accelerator (of load_accelerator('edge')), a name or the path of a file"
        raise InputError([Fault("simaccel", "accelerator", source, allowed)])
    accelerator.account.require_modelled("load_accelerator(..., allow_unmodelled=True)")
    return accelerator


def as_list(given: Any) -> list[Any]:  # noqa: ANN401 - one or several of anything
    """Return what is given as a list, of one if it is none."""
    return list(given) if isinstance(given, list | tuple) else [given]


def as_options(options: Options | None, objective: Objective | None) -> Options:
    """Return the options of the scheduler, with ``objective`` in place of theirs if it is given.

    Raises:
        InputError: there is no such objective.
    """
    options = Options() if options is None else options
    if objective is None:
        return options
    if objective not in OBJECTIVES:
        raise InputError(
            [Fault("simaccel", "objective", objective, suggest(objective, OBJECTIVES))]
        )
    return replace(
        options, objective=objective, effort=replace(options.effort, objective=objective)
    )


def as_inputs(
    workload: WorkloadLike,
    accelerator: AcceleratorLike,
    dataflow: DataflowLike,
    settings: Settings = (),
    options: Options | None = None,
) -> tuple[Workload, Accelerator, str | Mapping]:
    """Return all three, loaded; a mapping file is checked against the workload.

    ``options`` decide how the workload is split over chips.

    Raises:
        InputError: the faults of all of them.
    """
    checked, loaded = gather_placed(
        lambda: as_workload(workload), lambda: as_accelerator(accelerator, settings)
    )
    if isinstance(dataflow, Path):
        mapping = load_mapping(dataflow, checked, lambda made: compile_for(checked, loaded, made))
        checked = compile_for(checked, loaded, mapping)
        require_mapping(checked, mapping, loaded, str(dataflow))
        return checked, loaded, mapping
    if dataflow is None:
        dataflow = default_dataflow(loaded, checked)
    if isinstance(dataflow, str | Mapping):
        return compile_for(checked, loaded, dataflow, options), loaded, dataflow
    allowed = "the name of a dataflow or mapspace, a Mapping, or the Path of one"
    raise InputError([Fault("simaccel", "dataflow", dataflow, allowed)])


def resolve_mapping(
    workload: Workload,
    accelerator: Accelerator,
    dataflow: str | Mapping,
    options: Options | None = None,
) -> Mapping:
    """Return a mapping as it is after a check, or let a scheduler make it.

    Raises:
        SimaccelError: nothing fits, or the mapping is for another workload.
    """
    if not isinstance(dataflow, Mapping):
        return schedule_workload(workload, accelerator, dataflow, options)
    require_same(workload, dataflow)
    require_mapping(workload, dataflow, accelerator, "mapping")
    return dataflow


_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")
_WORDS: Final[Map[Any, str]] = {
    str: "a text",
    int: "a whole number",
    bool: "True or False",
    NoneType: "None",
    Path: "a Path",
}


def check_types(
    *others: str,
) -> Callable[[Callable[_Arguments, _Returned]], Callable[_Arguments, _Returned]]:
    """Decorate a function such that it refuses arguments of other than their annotated types.

    ``others``: arguments that the function checks itself.

    Raises:
        InputError: of the call, with each wrong argument.
    """

    def check(function: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
        taken = signature(function)

        @wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
            hints = get_type_hints(function)
            require_none(
                Fault(function.__name__, name, value, _allowed_values(hints[name]))
                for name, value in taken.bind(*args, **kwargs).arguments.items()
                if name not in others and not _is_a(value, hints[name])
            )
            return function(*args, **kwargs)

        return call

    return check


def _is_a(value: object, hint: Any) -> bool:  # noqa: ANN401 - any annotation
    """Return whether a value has a type; of annotations that can't be checked it has.

    >>> [_is_a(one, int | None) for one in (3, None, True, 1.5)]
    [True, True, False, False]
    >>> [_is_a(one, Sequence[str]) for one in (["a"], ("a",), [3], "a")]
    [True, True, False, False]
    """
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_is_a(value, choice) for choice in inner)
    if kind is Literal:  # which text is said by who reads it, with what is near
        return any(isinstance(value, type(choice)) for choice in inner)
    if kind is Sequence:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return False
        return all(_is_a(element, inner[0]) for element in value)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    return isinstance(value, kind) if isinstance(kind, type) else True


def _allowed_values(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """Return what a type allows.

    >>> _allowed_values(Sequence[str] | str | None)
    'a list, each a text, or a text, or None'
    """
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return ", or ".join(map(_allowed_values, inner))
    if kind is Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if kind is Sequence:
        return f"a list, each {_allowed_values(inner[0])}"
    if kind is Map:
        return "values by name"
    return _WORDS.get(kind) or str(getattr(kind, "__name__", kind))
