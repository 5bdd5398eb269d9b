"""What the user asked for: the options that commands share, and what they stand for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simaccel.errors import ABSENT, Fault, InputError, SimaccelError, suggest
from simaccel.hardware import Accelerator
from simaccel.hardware.load import load_accelerator
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.mapping.choices import Mapping
from simaccel.mapping.files import load_mapping
from simaccel.schedulers import DATAFLOWS, Options, make_mapping
from simaccel.workload import (
    MODELS,
    NETWORKS,
    Workload,
    build,
    conv2d,
    gemm,
    load_topology,
    load_workload,
    network,
    network_names,
    parse_conv,
    parse_shape,
)

SEQ_LEN, BATCH, SCOPE, DATAFLOW = "512", "1", "block", "flat"
"""What is used where nothing is given."""

_SOURCE = "command line"
_OPTIONS = {
    "seq_len": "--seq-len",
    "batch": "--batch",
    "scope": "--scope",
    "model": "--workload",
    "layer": "--layer",
    "bytes_per_element": "--bytes-per-element",
    "bytes_by_tensor": "--bytes-per-element",
}
_NO_ATTENTION = "it has no attention blocks"
_NO_LAYERS = "only networks and topologies have layers to choose"
_NO_SHAPE = "only the workloads gemm and conv have a shape"
_OF_SHAPE = {
    "gemm": ("B", "M=512,K=64,N=512"),
    "conv": ("N", "M=64,C=3,P=112,Q=112,R=7,S=7,stride=2"),
}
"""Workloads that --shape describes: the rank of the batch, and an example."""
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")


class NotRunnableError(SimaccelError):
    """An accelerator that no machine runs yet; the message says what takes it."""


def fault(option: str, value: object, allowed: str) -> Fault:
    """Say what is wrong with an option."""
    return Fault(_SOURCE, option, value, allowed)


def gather(*reads: Callable[[], object]) -> list[Any]:
    """Read several inputs and report the faults of all of them together.

    Raises:
        InputError: at least one of them is wrong.

    """
    found: list[object] = []
    faults: list[Fault] = []
    for read in reads:
        try:
            found.append(read())
        except InputError as error:
            faults += [one for one in error.faults if one not in faults]
    if faults:
        raise InputError(faults)
    return found


def number(text: str) -> object:
    """Read a whole number; leave other text to whoever says what is allowed."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else text


@dataclass(frozen=True)
class AskedWorkload:
    """The options that choose a workload, as given (None or empty: not given)."""

    name: str
    seq_len: str | None = None
    batch: str | None = None
    scope: str | None = None
    shape: str | None = None
    layer: str | None = None
    bytes_per_element: tuple[str, ...] = ()

    def read(self) -> Workload:
        """Build the workload.

        Raises:
            InputError: all faults of these options, or of the workload's file.

        """
        if self.name.lower().endswith(".csv"):
            self._refuse(_NO_ATTENTION, "seq_len", "scope")
            self._refuse(_NO_SHAPE, "shape")
            return _renamed(lambda: load_topology(self.name, **self._layers()))
        if _is_file(self.name):
            fields = ("seq_len", "batch", "scope", "shape", "layer", "bytes_per_element")
            self._refuse("the file says it", *fields)
            return load_workload(self.name)
        if self.name.lower() in network_names():
            self._refuse(_NO_ATTENTION, "seq_len", "scope")
            self._refuse(_NO_SHAPE, "shape")
            return _renamed(lambda: network(self.name, **self._layers()))
        return self._of_shape() if self.name in _OF_SHAPE else self._model()

    def _layers(self) -> dict[str, Any]:
        """Read the options of networks and topologies."""
        return {"batch": number(self.batch or BATCH), "layer": self.layer, **self._bytes()}

    def _of_shape(self) -> Workload:
        batch, example = _OF_SHAPE[self.name]
        self._refuse(f"--shape says it ({batch} is the batch)", "seq_len", "batch", "scope")
        self._refuse(_NO_LAYERS, "layer")
        if self.shape is None:
            allowed = f"the sizes of the {self.name}, as in --shape {example}"
            raise InputError([fault("--shape", ABSENT, allowed)])
        if self.name == "gemm":
            shape = parse_shape(self.shape)
            return _renamed(lambda: gemm(**shape, **self._bytes()))
        conv = parse_conv(self.shape)
        return _renamed(lambda: conv2d(**vars(conv), **self._bytes()))

    def _model(self) -> Workload:
        self._refuse(_NO_SHAPE, "shape")
        self._refuse(_NO_LAYERS, "layer")
        sizes: dict[str, Any] = {
            "batch": number(self.batch or BATCH),
            "seq_len": number(self.seq_len or SEQ_LEN),
            "scope": self.scope or SCOPE,
        }
        return _renamed(lambda: build(self.name, **sizes, **self._bytes()))

    def _bytes(self) -> dict[str, Any]:
        """Read ``--bytes-per-element``: a number for all tensors, TENSOR=N for one."""
        given: dict[str, Any] = {"bytes_by_tensor": {}}
        for text in self.bytes_per_element:
            tensor, equals, size = text.rpartition("=")
            if equals:
                given["bytes_by_tensor"][tensor.strip()] = number(size)
            else:
                given["bytes_per_element"] = number(size)
        return given

    def _refuse(self, reason: str, *fields: str) -> None:
        """Refuse options that have no meaning for this workload."""
        allowed = f"nothing with --workload {self.name}; {reason}"
        given = {field: getattr(self, field) for field in fields}
        _require_none(
            fault(f"--{field.replace('_', '-')}", value, allowed)
            for field, value in given.items()
            if value
        )


def _require_none(faults: Iterable[Fault]) -> None:
    found = list(faults)
    if found:
        raise InputError(found)


def _renamed(make: Callable[[], Workload]) -> Workload:
    """Name options instead of the fields that they fill."""
    try:
        return make()
    except InputError as error:
        raise InputError([_of_option(one) for one in error.faults]) from None


def _of_option(one: Fault) -> Fault:
    field, _, rest = one.field.partition(".")
    if field not in _OPTIONS:
        return one
    allowed = one.allowed
    if field == "model":
        names = [known.name for known in (*MODELS, *NETWORKS)]
        aliases = [alias for known in (*MODELS, *NETWORKS) for alias in known.aliases]
        allowed = suggest(str(one.value).lower(), [*names, *aliases, *_OF_SHAPE])
        if not allowed.startswith("did"):
            allowed = suggest("", names)
        allowed = f"a model, a network, gemm, conv or a .yaml or .csv file; {allowed}"
    return fault(f"{_OPTIONS[field]} {rest}".strip(), one.value, allowed)


def _is_file(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml")) or "/" in name or os.sep in name


Inputs = tuple[Workload, Accelerator, str | Mapping]
"""What an experiment is made of: the last is a dataflow's name or a mapping."""


@dataclass(frozen=True)
class Asked:
    """The options that choose an experiment."""

    hw: str
    overrides: tuple[str, ...]
    workload: AskedWorkload
    dataflow: str | None = None
    pipeline: bool = False
    mapping: str | None = None

    @property
    def options(self) -> Options:
        """What is asked of the scheduler."""
        return Options(pipeline=self.pipeline)

    def accelerator(self) -> Accelerator:
        """Load the accelerator."""
        return load_accelerator(self.hw, self.overrides)

    def runnable(self) -> Accelerator:
        """Load the accelerator, which has to have an array that can be run.

        Raises:
            InputError: the accelerator's faults.
            NotRunnableError: its array is spatial.

        """
        accelerator = self.accelerator()
        if isinstance(accelerator.array, SpatialArraySpec):
            raise NotRunnableError(
                f"{accelerator.name}: its array is spatial, which can be mapped (simaccel map "
                f"--hw {self.hw} --mapspace ruby-s ...) but not run or compared yet"
            )
        return accelerator

    def read(self) -> Inputs:
        """Read everything: workload, accelerator, and the dataflow or a mapping.

        Raises:
            InputError: the faults of all of them together.
            NotThisWorkloadError: the mapping is for another workload.

        """
        workload, accelerator, *_ = gather(
            self.workload.read,
            self.runnable,
            lambda: require_dataflows([self.dataflow or DATAFLOW]),
            self._require_one,
        )
        if self.mapping is None:
            return workload, accelerator, self.dataflow or DATAFLOW
        return workload, accelerator, load_mapping(Path(self.mapping), workload)

    def mapped(self) -> tuple[Workload, Accelerator, Mapping]:
        """Read everything and let the scheduler make the mapping where none is given."""
        workload, accelerator, dataflow = self.read()
        if not isinstance(dataflow, Mapping):
            dataflow = make_mapping(workload, accelerator, dataflow, self.options)
        return workload, accelerator, dataflow

    def _require_one(self) -> None:
        """Refuse options that a mapping has decided already."""
        allowed = "nothing beside --mapping, which decides it"
        given = {"--dataflow": self.dataflow, "--pipeline": self.pipeline or None}
        if self.mapping is not None:
            _require_none(fault(o, v, allowed) for o, v in given.items() if v is not None)


def require_dataflows(names: Sequence[str]) -> None:
    """Refuse names that no dataflow has.

    Raises:
        InputError: all of them.

    """
    faults = []
    for name in names:
        allowed = suggest(name, DATAFLOWS)
        if "," in name:
            allowed = "one dataflow; `simaccel compare` takes several"
        if name not in DATAFLOWS:
            faults.append(fault("--dataflow", name, allowed))
    _require_none(faults)
