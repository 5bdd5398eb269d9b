"""Arguments of verbs: one that can't be is refused by its name, with what is allowed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from inspect import signature
from typing import Any

import pytest

from simaccel import (
    bound,
    build,
    compare,
    estimate,
    explore,
    gemm,
    load_accelerator,
    load_workload,
    simulate,
)
from simaccel.errors import SimaccelError

_WORKLOAD = gemm(4, 4, 4)
_RUN = {"workload": _WORKLOAD, "accelerator": "toy", "dataflow": "naive"}
_CALLS: Mapping[Callable[..., object], dict[str, Any]] = {
    simulate: _RUN,
    estimate: _RUN,
    compare: {**_RUN, "dataflows": "naive"},
    explore: {"workloads": _WORKLOAD, "accelerators": "toy", "dataflows": "naive"},
    bound: {"workload": _WORKLOAD},
    build: {"name": "gpt2"},
    gemm: {"m": 4, "k": 4, "n": 4},
    load_accelerator: {"name_or_path": "toy"},
}
_WRONG: tuple[Any, ...] = (
    3,
    1.5,
    float("nan"),
    True,
    None,
    "x",
    "",
    b"x",
    [],
    [1],
    {},
    {"a": 1},
    set(),
    object(),
)
_PATHS = ("store", "run_all", "progress", "mapspace")


@pytest.mark.parametrize("call", _CALLS)
def test_no_argument_ends_in_an_error_of_python(
    call: Callable[..., object],
) -> None:
    names = [name for name in signature(call).parameters if name not in _PATHS]
    given = {name: value for name, value in _CALLS[call].items() if name in names}
    for name in names:
        for value in _WRONG:
            with suppress(SimaccelError):  # anything else would be an error of Python's own
                call(**{**given, name: value})


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: simulate(**_RUN, options={"a": 1}), "simulate: options: got {'a': 1}; "),  # type: ignore[arg-type]
        (lambda: simulate(**_RUN, fast_forward="no"), "fast_forward: got 'no'; allowed: True or"),  # type: ignore[arg-type]
        (lambda: explore(_WORKLOAD, "toy", jobs="2"), "jobs: got '2'; allowed: a whole number"),  # type: ignore[arg-type]
        (lambda: compare(_WORKLOAD, "toy", []), "got 'nothing'; allowed: at least one of each"),
        (lambda: build([]), "workload: name: got []; allowed: the name of a workload"),  # type: ignore[arg-type]
    ],
)
def test_the_argument_is_named(call: Callable[[], object], told: str) -> None:
    with pytest.raises(SimaccelError) as caught:
        call()
    assert told in str(caught.value)


def test_a_call_that_does_not_fit_says_which_arguments_there_are() -> None:
    for call in (load_workload, load_accelerator, bound):
        with pytest.raises(TypeError, match=r"missing a required argument: '\w+'; allowed: \w+"):
            call()  # type: ignore[call-arg]
