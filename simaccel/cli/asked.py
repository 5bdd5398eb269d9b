"""What the user asked for: the options that commands share, and what they stand for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simaccel.cli.faults import fault, gather, require_none
from simaccel.cli.sought import MAPSPACE, Sought
from simaccel.errors import ABSENT, Fault, InputError, suggest
from simaccel.experiment.scheduling import scheduled
from simaccel.hardware import Accelerator
from simaccel.hardware.load import accelerator_path, load_accelerator
from simaccel.hardware.spatial import SpatialArraySpec
from simaccel.mapping.checks import require_mapping
from simaccel.mapping.files import load_mapping
from simaccel.mapping.tree import Mapping
from simaccel.mapspace.space import STRATEGIES, Strategy
from simaccel.schedulers import DATAFLOWS, Options
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
COMPARED = ("naive", "flex", "flat", "flash")
"""What a systolic array is compared with where nothing is given."""

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

    def is_file(self) -> bool:
        """Say whether the name is the path of a file."""
        return self.name.lower().endswith(".csv") or _is_file(self.name)

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
        require_none(
            fault(f"--{field.replace('_', '-')}", value, allowed)
            for field, value in given.items()
            if value
        )


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
    sought: Sought = field(default_factory=Sought)

    @property
    def options(self) -> Options:
        """What is asked of the scheduler."""
        sought = self.sought
        return Options(
            pipeline=self.pipeline,
            objective=sought.objective or Options.objective,
            effort=sought.effort(),
            constraints=sought.constraints,
        )

    def accelerator(self) -> Accelerator:
        """Load the accelerator."""
        return load_accelerator(self.hw, self.overrides)

    def inputs(self) -> list[Path]:
        """Name the files that are read: no output replaces one of them."""
        found = [Path(self.mapping)] if self.mapping else []
        if self.workload.is_file():
            found.append(Path(self.workload.name))
        with suppress(InputError):  # which reading the accelerator reports
            found.append(accelerator_path(self.hw))
        return found

    def read(self) -> Inputs:
        """Read everything: workload, accelerator, and the scheduler's name or a mapping.

        Raises:
            InputError: the faults of all of them together.
            NotThisWorkloadError: the mapping is for another workload.

        """
        workload, accelerator, name = gather(
            self.workload.read, self.accelerator, lambda: self.names(several=False)[0]
        )
        if self.mapping is None:
            return workload, accelerator, name
        mapping = load_mapping(Path(self.mapping), workload)
        require_mapping(workload, mapping, accelerator, self.mapping)
        return workload, accelerator, mapping

    def mapped(self) -> tuple[Workload, Accelerator, Mapping]:
        """Read everything and let the scheduler make the mapping where none is given."""
        workload, accelerator, dataflow = self.read()
        if not isinstance(dataflow, Mapping):
            dataflow = scheduled(workload, accelerator, dataflow, self.options)
        return workload, accelerator, dataflow

    def names(self, *, several: bool) -> list[str]:
        """Give the schedulers: dataflows or mapspaces.

        Raises:
            InputError: one that isn't, several where one is wanted, or options that don't go
                together.

        """
        gather(self._require_one, self.sought.require_constraints)
        if self.searches():
            self._refuse_dataflow()
            default: Sequence[Strategy] = STRATEGIES if several else (MAPSPACE,)
            return list(self.sought.strategies(default)) if several else [self.sought.strategy()]
        allowed = f"nothing without --mapspace on {self.hw}, whose array is systolic"
        replace(self.sought, objective=None).refuse(allowed)
        if self.dataflow is None:
            return [*COMPARED] if several else [DATAFLOW]
        names = self.dataflow.split(",") if several else [self.dataflow]
        return require_dataflows([name.strip() for name in names])

    def searches(self) -> bool:
        """Say whether a mapspace is searched: where one is given, and on spatial arrays."""
        return self.mapping is None and (self.sought.mapspace is not None or self.is_spatial())

    def is_spatial(self) -> bool:
        """Say whether the accelerator has a spatial array; one that is wrong has none."""
        try:
            return isinstance(self.accelerator().array, SpatialArraySpec)
        except InputError:
            return False

    def _refuse_dataflow(self) -> None:
        allowed = "nothing where a mapspace is searched (--mapspace, and on spatial arrays)"
        given = {"--dataflow": self.dataflow, "--pipeline": self.pipeline or None}
        require_none(fault(o, v, allowed) for o, v in given.items() if v is not None)

    def _require_one(self) -> None:
        """Refuse options that a mapping has decided already."""
        if self.mapping is None:
            return
        allowed = "nothing beside --mapping, which decides it"
        given = {"--dataflow": self.dataflow, "--pipeline": self.pipeline or None}
        require_none(fault(o, v, allowed) for o, v in given.items() if v is not None)
        self.sought.refuse(allowed)


def require_dataflows(names: list[str]) -> list[str]:
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
    require_none(faults)
    return names
