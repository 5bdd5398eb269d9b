"""The options that choose a workload, and what they stand for."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from simaccel.cli.faults import fault, require_none
from simaccel.errors import ABSENT, Fault, InputError, suggest

if TYPE_CHECKING:
    from simaccel.workload import Workload
    from simaccel.workload.onnx_files import Imported

Made = TypeVar("Made")
SEQ_LEN, BATCH, SCOPE = "512", "1", "block"
"""What is used where nothing is given."""

_OPTIONS = {
    "seq_len": "--seq-len",
    "batch": "--batch",
    "scope": "--scope",
    "model": "--workload",
    "phase": "--phase",
    "prompt": "--prompt",
    "kv_len": "--kv-len",
    "experts": "--experts",
    "causal_blocks": "--causal-blocks",
    "generate": "--generate",
    "lengths": "--lengths",
    "layer": "--layer",
    "bytes_per_element": "--bytes-per-element",
    "bytes_by_tensor": "--bytes-per-element",
}
_NO_ATTENTION = "it has no attention blocks"
_PHASE = ("phase", "prompt", "kv_len", "experts", "causal_blocks")
_NO_LAYERS = "only networks, topologies and descriptions have layers to choose"
_NO_SHAPE = "only the workloads gemm, bmm, gbmm and conv have a shape"
_OF_SHAPE = {
    "gemm": ("B", "M=512,K=64,N=512"),
    "bmm": ("H", "H=32,M=4096,K=128,N=4096"),
    "gbmm": ("H", "G=8,H=32,M=4096,K=128,N=4096"),
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
    phase: str | None = None
    prompt: str | None = None
    kv_len: str | None = None
    experts: str | None = None
    causal_blocks: str | None = None
    bytes_per_element: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()

    def read(self) -> Workload:
        """Build the workload.

        Raises:
            InputError: all faults of these options, or of the workload's file.

        """
        from simaccel.workload import network, network_names, transformer, transformer_names

        if self.is_onnx():
            return self.imported().workload
        allowed = f"nothing with --workload {self.name}; only ONNX models have dynamic dimensions"
        require_none([fault("--dim", ", ".join(self.dims), allowed)] if self.dims else [])
        if self.name.lower() in transformer_names():
            self._refuse("--prompt and --kv-len say it", "seq_len")
            self._refuse(_NO_SHAPE, "shape")
            self._refuse(_NO_LAYERS, "layer")
            return _renamed(lambda: transformer(self.name, **self._phase()))
        self._refuse("only transformers have phases, masks and experts", *_PHASE)
        if _is_file(self.name) or self.name.lower().endswith(".csv") or is_described(self.name):
            return self._of_file()
        if self.name.lower() in network_names():
            self._refuse(_NO_ATTENTION, "seq_len", "scope")
            self._refuse(_NO_SHAPE, "shape")
            return _renamed(lambda: network(self.name, **self._layers()))
        return self._of_shape() if self.name in _OF_SHAPE else self._model()

    def _of_file(self) -> Workload:
        from simaccel.workload import load_described, load_topology, load_workload

        if self.name.lower().endswith(".csv"):
            self._refuse(_NO_ATTENTION, "seq_len", "scope")
            self._refuse(_NO_SHAPE, "shape")
            return _renamed(lambda: load_topology(self.name, **self._layers()))
        if is_described(self.name):
            self._refuse("the file says it", "seq_len", "batch", "scope", "shape")
            return _renamed(lambda: load_described(self.name, layer=self.layer, **self._bytes()))
        fields = ("seq_len", "batch", "scope", "shape", "layer", "bytes_per_element")
        self._refuse("the file says it", *fields)
        return load_workload(self.name)

    def generation(self, make: Callable[[str, dict[str, Any]], Made]) -> Made:
        """Make something of a transformer's name and its options (no phase among them).

        Raises:
            InputError: the workload is no transformer, or its options are wrong.

        """
        from simaccel.workload import TRANSFORMERS, transformer_names

        if self.name.lower() not in transformer_names():
            allowed = suggest(self.name.lower(), transformer_names())
            if not allowed.startswith("did"):
                allowed = suggest("", [one.name for one in TRANSFORMERS])
            allowed = f"a transformer, as --generate is given; {allowed}"
            raise InputError([fault("--workload", self.name, allowed)])
        self._refuse("--prompt and --kv-len say it", "seq_len")
        self._refuse(_NO_SHAPE, "shape")
        self._refuse(_NO_LAYERS, "layer")
        return _renamed(lambda: make(self.name, self._phase()))

    def is_file(self) -> bool:
        """Say whether the name is the path of a file."""
        return self.name.lower().endswith((".csv", ".onnx")) or _is_file(self.name)

    def is_onnx(self) -> bool:
        """Say whether the name is that of an ONNX file."""
        return self.name.lower().endswith(".onnx")

    def imported(self) -> Imported:
        """Read an ONNX file with what became of its nodes.

        Raises:
            InputError: all faults of the options, or of the file.

        """
        from simaccel.workload.onnx_files import load_onnx

        fields = ("seq_len", "batch", "scope", "shape", "layer", *_PHASE)
        self._refuse("the file says it, and --dim", *fields)
        given = self._bytes()
        if named := given.pop("bytes_by_tensor"):
            allowed = "a number for all tensors of an ONNX model"
            raise InputError([fault("--bytes-per-element", ", ".join(named), allowed)])
        dims: dict[str, Any] = {}
        for text in self.dims:
            name, equals, size = text.rpartition("=")
            if not equals or not name.strip() or name.strip() in dims:
                raise InputError([fault("--dim", text, "NAME=SIZE, each name once")])
            dims[name.strip()] = number(size)
        return load_onnx(self.name, dims, **given)

    def _layers(self) -> dict[str, Any]:
        """Read the options of networks and topologies."""
        return {"batch": number(self.batch or BATCH), "layer": self.layer, **self._bytes()}

    def _phase(self) -> dict[str, Any]:
        """Read the options of transformers."""
        texts = {name: getattr(self, name) for name in ("batch", "prompt", "kv_len")}
        texts["causal_blocks"] = self.causal_blocks
        given: dict[str, Any] = {n: number(text) for n, text in texts.items() if text}
        given |= {name: getattr(self, name) for name in ("phase", "scope") if getattr(self, name)}
        if self.experts:
            counts = [number(one) for one in self.experts.split(",")]
            given["experts"] = counts if len(counts) > 1 else self.experts
        return {**given, **self._bytes()}

    def _of_shape(self) -> Workload:
        from simaccel.workload import (
            bmm,
            conv2d,
            gbmm,
            gemm,
            parse_conv,
            parse_product,
            parse_shape,
        )

        batch, example = _OF_SHAPE[self.name]
        self._refuse(f"--shape says it ({batch} is the batch)", "seq_len", "batch", "scope")
        self._refuse(_NO_LAYERS, "layer")
        if self.shape is None:
            allowed = f"the sizes of the {self.name}, as in --shape {example}"
            raise InputError([fault("--shape", ABSENT, allowed)])
        if self.name == "gemm":
            shape = parse_shape(self.shape)
            return _renamed(lambda: gemm(**shape, **self._bytes()))
        if self.name in ("bmm", "gbmm"):
            sizes = parse_product(self.shape, grouped=self.name == "gbmm")
            make: Callable[..., Workload] = gbmm if self.name == "gbmm" else bmm
            return _renamed(lambda: make(**sizes, **self._bytes()))
        conv = parse_conv(self.shape)
        return _renamed(lambda: conv2d(**vars(conv), **self._bytes()))

    def _model(self) -> Workload:
        from simaccel.workload import build

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


def _renamed(make: Callable[[], Made]) -> Made:
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
        from simaccel.workload import MODELS, NETWORKS, TRANSFORMERS

        every = (*MODELS, *TRANSFORMERS, *NETWORKS)
        names = [known.name for known in every]
        aliases = [alias for known in every for alias in known.aliases]
        allowed = suggest(str(one.value).lower(), [*names, *aliases, *_OF_SHAPE])
        if not allowed.startswith("did"):
            allowed = suggest("", names)
        kinds = "a model, a network, gemm, bmm, gbmm, conv or a .yaml, .csv, .onnx or .m file"
        allowed = f"{kinds}; {allowed}"
    return fault(f"{_OPTIONS[field]} {rest}".strip(), one.value, allowed)


def _is_file(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml", ".m")) or "/" in name or os.sep in name


def is_described(name: str) -> bool:
    """Say whether a file is a MAESTRO description, by its ending or else by its content."""
    if name.lower().endswith(".m"):
        return True
    if not _is_file(name) or not Path(name).is_file():
        return False
    from simaccel.files.directives.reading import is_description
    from simaccel.files.documents import read_text

    return is_description(read_text(Path(name), "workload"))
