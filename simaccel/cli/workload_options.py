"""The options of a workload, and the workload that they describe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from simaccel.cli.choices import EXPERTS_AXIS, GROUPED
from simaccel.cli.settings import fault
from simaccel.errors import Fault, InputError, suggest

if TYPE_CHECKING:
    from simaccel.importers.onnx_files import ImportedWorkload
    from simaccel.workload import Workload
    from simaccel.workload.language.model import Transformer

Made = TypeVar("Made")

_NUMBERS = ("seq_len", "batch", "prompt", "kv_len", "causal_blocks")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_NEXT_NAME = re.compile(r",(?=[^,=]+=)")
_FIELD = re.compile(r"`(\w+)`")


def _each_name(texts: Iterable[str]) -> Iterator[str]:
    """Yield each ``NAME=VALUE`` of texts that may be lists of them."""
    return (named for text in texts for named in _NEXT_NAME.split(text))


def number(text: str) -> object:
    """Return a whole number, or the text itself if it is none."""
    return int(text) if _NUMBER.fullmatch(text.strip()) else text


@dataclass(frozen=True)
class WorkloadOptions:
    """The options of a workload, as given (None or empty: not given)."""

    name: str = ""
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
    precision: tuple[str, ...] = ()
    dims: tuple[str, ...] = ()
    transposed: str | None = None
    allow_unmodelled: bool = False
    grouped_for: str | None = None
    """The degree of expert parallelism for which tokens go in groups, as nothing else is given."""

    def for_experts(self, degree: str | None, axes: Sequence[str] = ()) -> WorkloadOptions:
        """Return options that distribute tokens such that experts can be on several chips.

        ``degree``: of expert parallelism; None: that of an axis of a sweep, if one has any.
        """
        given = (text.removeprefix(EXPERTS_AXIS) for text in axes if text.startswith(EXPERTS_AXIS))
        degree = degree or next(given, None)
        if degree is None or self.experts is not None or self._file_spreads():
            return self
        return replace(self, experts=GROUPED, grouped_for=degree)

    def _file_spreads(self) -> bool:
        """Return whether the workload's file says how many tokens each expert has."""
        from simaccel.importers.workloads import kind_of_file
        from simaccel.workload.files import load_transformer

        found = load_transformer(self.name) if kind_of_file(self.name) == "document" else None
        return found is not None and "experts" in found[1]

    def read(self) -> Workload:
        """Build the workload."""
        found = self.read_anyway()
        found.account.require_modelled()
        return found

    def read_anyway(self) -> Workload:
        """Build the workload, however much of its file is left out."""
        from simaccel.importers.workloads import kind_of_file, load_workload

        document = self.name if kind_of_file(self.name) == "document" else None
        allowed = self.allow_unmodelled

        def load() -> Workload:
            return load_workload(self.name, allow_unmodelled=allowed, **self._sizes())

        return self._rename_fields(load, document)

    def generation(self, make: Callable[[str | Transformer, dict[str, Any]], Made]) -> Made:
        """Return ``make`` called with a transformer's name and its options without the phase."""
        model, document = self.require_transformer()

        def make_workload() -> Made:
            from simaccel.workload.building import require_taken
            from simaccel.workload.files import require_unsaid

            sizes = self._sizes()
            require_taken(self.name, "transformer", sizes)
            require_unsaid(document, sizes, self.name)
            if "phase" in document:
                allowed = "nothing in a file of which tokens are generated, which has both phases"
                raise InputError([Fault(self.name, "phase", document["phase"], allowed)])
            return make(model, {**document, **sizes})

        return self._rename_fields(make_workload, self.name)

    def require_transformer(self) -> tuple[str | Transformer, dict[str, Any]]:
        """Return a transformer or its name, and the run options of its file; refuse all else."""
        from simaccel.importers.workloads import kind_of_file
        from simaccel.workload import TRANSFORMERS

        kind = kind_of_file(self.name)
        if kind == "config":
            from simaccel.importers.hugging_face.config import load_config

            return load_config(self.name)[0], {}
        if kind == "document":
            from simaccel.workload.files import load_transformer

            if (of_file := load_transformer(self.name)) is not None:
                return of_file
        if not TRANSFORMERS.has(self.name):
            allowed = suggest(self.name.lower(), TRANSFORMERS.names_and_aliases, TRANSFORMERS)
            allowed = f"a transformer, as tokens are generated; {allowed}"
            raise InputError([fault("--workload", self.name, allowed)])
        return self.name, {}

    def is_file(self) -> bool:
        """Return whether the name is the path of a file."""
        from simaccel.importers.workloads import is_file

        return is_file(self.name)

    def is_onnx(self) -> bool:
        """Return whether the name is that of an ONNX file."""
        from simaccel.importers.workloads import kind_of_file

        return kind_of_file(self.name) == "onnx"

    def estimates(self) -> Mapping[str, float]:
        """Return the file's estimates in cycles by layer; refuse another batch, which they lack."""
        if not self.name.lower().endswith(".csv"):
            return {}
        from simaccel.importers.scalesim.topology import load_estimates

        estimates = load_estimates(self.name)
        if estimates and self.batch is not None and number(self.batch) != 1:
            allowed = f"1, as the estimates in {self.name} are of its own sizes"
            raise InputError([fault("--batch", self.batch, allowed)])
        return {name: n for name, n in estimates.items() if self.layer in (None, name)}

    def import_file(self) -> ImportedWorkload:
        """Return an ONNX file as imported, with the treatment of each node."""
        from simaccel.importers.onnx_files import load_onnx

        self.read_anyway()  # which refuses what an ONNX file does not take
        known = ("dims", "bytes_per_element", "transposed")
        taken = {name: value for name, value in self._sizes().items() if name in known}
        return load_onnx(self.name, **taken)

    def _sizes(self) -> dict[str, Any]:
        """Read the options that are given, as ``WorkloadSizes`` has them."""
        from simaccel.workload.building import WorkloadSizes

        sizes: dict[str, Any] = {}
        for name in WorkloadSizes.__annotations__:
            text = getattr(self, name, None)
            if isinstance(text, str):
                sizes[name] = number(text) if name in _NUMBERS else text
        if self.experts is not None:
            counts = [number(count) for count in self.experts.split(",")]
            sizes["experts"] = counts if len(counts) > 1 else self.experts
        if self.precision:
            sizes["precision"] = ",".join(self.precision)
        if self.dims:
            sizes["dims"] = self._dims()
        return {**sizes, **(self._bytes() if self.bytes_per_element else {})}

    def _rename_fields(self, make: Callable[[], Made], document: str | None = None) -> Made:
        """Name options instead of the fields that they fill; a document's keep their names."""
        try:
            return make()
        except InputError as error:
            raise InputError([self._of_option(one, document) for one in error.faults]) from None

    def _of_option(self, wrong: Fault, document: str | None) -> Fault:
        """Name the option that fills a field, also where the reason does (`` `prompt` ``)."""
        if wrong.field == "experts" and self.grouped_for is not None:
            return fault("--expert-parallel", self.grouped_for, wrong.allowed)
        if wrong.file == document:
            return wrong
        allowed = _FIELD.sub(lambda field: _OPTIONS.get(field[1], field[1]), wrong.allowed)
        if wrong.file == "shape":
            return replace(wrong, file="--shape", allowed=allowed)
        field, _, rest = wrong.field.partition(".")
        if field not in _OPTIONS:
            return replace(wrong, allowed=allowed)
        shown = wrong.value
        if isinstance(shown, dict):
            shown = ", ".join(f"{name}={size}" for name, size in shown.items())
        return fault(f"{_OPTIONS[field]} {rest}".strip(), shown, allowed)

    def _dims(self) -> dict[str, Any]:
        dims: dict[str, Any] = {}
        for text in _each_name(self.dims):
            name, equals, size = text.rpartition("=")
            if not equals or not name.strip():
                example = text if text.isidentifier() else "n"
                raise InputError([fault("--dim", text, f"NAME=SIZE, as in {example}=1")])
            dims[name.strip()] = number(size)
        return dims

    def _bytes(self) -> dict[str, Any]:
        """Read ``--bytes-per-element``: a number for all tensors, TENSOR=N for one."""
        given: dict[str, Any] = {}
        for text in _each_name(self.bytes_per_element):
            tensor, equals, size = text.rpartition("=")
            if equals:
                given.setdefault("bytes_by_tensor", {})[tensor.strip()] = number(size)
            else:
                given["bytes_per_element"] = number(size)
        return given


_OPTIONS = {field.name: f"--{field.name.replace('_', '-')}" for field in fields(WorkloadOptions)}
_OPTIONS |= {"name": "--workload", "model": "--workload", "dims": "--dim", "generate": "--tokens"}
_OPTIONS |= {"lengths": "--lengths", "bytes_by_tensor": "--bytes-per-element"}
del _OPTIONS["allow_unmodelled"], _OPTIONS["grouped_for"]
"""Options by the fields that they fill."""
