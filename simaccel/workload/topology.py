"""SCALE-Sim topologies: CSV files with a layer a row, convolutions or matrix products.

    Layer name,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides,
    Conv1,227,227,11,11,3,96,4,

    Layer,M,N,K,
    qkv,128,1536,512,

The header says what each column is, in any order and case; a comma may end a line. A stride for
the width may follow that for the height. Read as SCALE-Sim 3 does (scalesim/topology_utils.py):

- Nothing is padded: the IFMAP counts with its padding, and the output has
  ceil((IFMAP - filter + stride) / stride) rows: a last step that fits in part counts.
- A name with "DP" is a depth-wise convolution: a group for each channel.
- A product is O[M,N] = I[M,K] W[K,N]; a column Batch repeats it with other factors.

A column Sparsity must say that nothing is sparse (1:1). Layers of the same name get _2, _3, ...;
blanks inside a name become underscores; of products the names may be left out (layer1, layer2,
...). A column Estimate has the cycles that one expects of a layer, for `load_estimates`.
"""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simaccel.errors import ABSENT, Fault, InputError, suggest
from simaccel.files.documents import read_text
from simaccel.workload.conv import Conv
from simaccel.workload.layers import (
    Layers,
    Product,
    Shape,
    distinct_names,
    layers_workload,
    one_layer,
    with_batch,
)
from simaccel.workload.names import name_faults
from simaccel.workload.sizes import MAX_LAYER_SIZE, MAX_OPERATORS, size_faults
from simaccel.workload.workload import Workload

_CONV = {
    "name": "Layer name",
    "height": "IFMAP Height",
    "width": "IFMAP Width",
    "r": "Filter Height",
    "s": "Filter Width",
    "c": "Channels",
    "m": "Num Filter",
    "stride": "Strides",
}
_PRODUCT = {"name": "Layer", "m": "M", "n": "N", "k": "K"}
_OPTIONAL_CONV = {"stride_w": "Stride Width", "sparsity": "Sparsity", "given": "Estimate"}
_OPTIONAL_PRODUCT = {"b": "Batch", "sparsity": "Sparsity", "given": "Estimate"}
_ALIASES = {"layer": "layername", "strideheight": "strides", "stride": "strides"}
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_MOST_COLUMNS = 100
_DIGITS = 18
_CYCLES = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
_DENSE = re.compile(r"([0-9]+):\1")


@dataclass
class _Sheet:
    """A file while it is read: which column holds what, and the faults that were found."""

    file: str
    titles: Mapping[str, str]
    columns: dict[str, int]
    faults: list[Fault] = field(default_factory=list)

    def cell(self, row: "_Row", key: str) -> str:
        at = self.columns.get(key)
        return row.cells[at] if at is not None and at < len(row.cells) else ""

    def fault(self, row: "_Row", key: str, value: object, allowed: str) -> None:
        at = self.columns[key] + 1
        where = f"line {row.line}, column {at} ({self.titles[key]})"
        self.faults.append(Fault(self.file, where, value, allowed))

    def size(self, row: "_Row", key: str, default: int | None = None) -> int:
        """Read a size; 1 where it is none, with a fault."""
        text = self.cell(row, key)
        if not text and default is not None:
            return default
        value = int(text) if _NUMBER.fullmatch(text) else text or ABSENT
        faults = size_faults(self.file, {key: value}, MAX_LAYER_SIZE)
        for one in faults:
            self.fault(row, key, one.value, one.allowed)
        return 1 if faults else int(text)


@dataclass(frozen=True)
class _Row:
    line: int
    cells: list[str]


def load_topology(
    path: str | Path,
    *,
    batch: int = 1,
    layer: str | None = None,
    bytes_per_element: int = 2,
    bytes_by_tensor: Mapping[str, int] | None = None,
) -> Workload:
    """Return the layers of a SCALE-Sim topology for `batch` samples, or one of them.

    `bytes_by_tensor` has the element sizes of `I`, `W` and `O` in all layers. The workload has
    the name of the file.

    Raises:
        InputError: all faults of the file, each with line and column, or of the other arguments.

    """
    faults = size_faults("topology", {"batch": batch}, MAX_LAYER_SIZE)
    try:
        layers = one_layer(read_topology(path), layer, str(path))
    except InputError as error:
        raise InputError([*faults, *error.faults]) from None
    if faults:
        raise InputError(faults)
    return layers_workload(
        Path(path).stem,
        with_batch(layers, batch),
        bytes_per_element=bytes_per_element,
        bytes_by_tensor=bytes_by_tensor,
    )


def read_topology(path: str | Path) -> Layers:
    """Return the layers of a SCALE-Sim topology by name.

    Raises:
        InputError: all faults of the file, each with line and column.

    """
    return {name: shape for name, (shape, _) in _read(path).items()}


def load_estimates(path: str | Path) -> dict[str, float]:
    """Return the cycles that the column Estimate has, by layer; nothing where it is empty.

    Raises:
        InputError: all faults of the file, each with line and column.

    """
    return {name: given for name, (_, given) in _read(path).items() if given is not None}


def _read(path: str | Path) -> dict[str, tuple[Shape, float | None]]:
    """Read the layers and what is expected of them."""
    header, *rows = _rows(str(path))
    if len(rows) > MAX_OPERATORS:
        allowed = f"at most {MAX_OPERATORS} layers"
        raise InputError([Fault(str(path), "layers", f"{len(rows)} layers", allowed)])
    sheet = _sheet(str(path), header)
    read = _product if "k" in sheet.titles else _conv
    names, shapes = [], []
    for number, row in enumerate(rows, 1):
        names.append(_name(sheet, row) if "name" in sheet.columns else f"layer{number}")
        shapes.append((read(sheet, row), _estimate(sheet, row)))
        _refuse_surplus(sheet, row)
    if not rows:
        after = f"line {header.line + 1}"
        sheet.faults.append(Fault(sheet.file, after, ABSENT, "at least one layer"))
    if sheet.faults:
        raise InputError(sheet.faults)
    return dict(zip(distinct_names(names), shapes, strict=True))


def _rows(file: str) -> list[_Row]:
    """Read the lines that are not blank."""
    found = []
    for number, line in enumerate(read_text(Path(file), "CSV", "utf-8-sig").splitlines(), 1):
        try:
            cells = _cells(line)
        except csv.Error as error:
            raise InputError([Fault(file, f"line {number}", str(error), "CSV")]) from None
        if cells:
            found.append(_Row(number, cells))
    if not found:
        raise InputError([Fault(file, "line 1", ABSENT, "a header and at least one layer")])
    return found


def _cells(line: str) -> list[str]:
    """Read a line without the comment and the empty cells at its end."""
    cells = [cell.strip() for cell in next(csv.reader([line], strict=True), [])]
    comments = [at for at, cell in enumerate(cells) if at and cell.startswith("#")]
    cells = cells[: comments[0]] if comments else cells
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _sheet(file: str, header: _Row) -> _Sheet:
    """Find the columns by their titles."""
    if len(header.cells) > _MOST_COLUMNS:
        where, found = f"line {header.line}", f"{len(header.cells)} columns"
        raise InputError([Fault(file, where, found, f"at most {_MOST_COLUMNS} columns")])
    keys = [_key(title) for title in header.cells]
    is_product = {"m", "n", "k"} & set(keys) and _key(_CONV["height"]) not in keys
    needed = _PRODUCT if is_product else _CONV
    titles = needed | (_OPTIONAL_PRODUCT if is_product else _OPTIONAL_CONV)
    known = {_key(title): name for name, title in titles.items()}
    sheet = _Sheet(file, titles, {})
    for at, (key, title) in enumerate(zip(keys, header.cells, strict=True)):
        where = f"line {header.line}, column {at + 1}"
        if key not in known:
            allowed = suggest(title, titles.values())
            sheet.faults.append(Fault(file, where, title, allowed))
        elif known[key] in sheet.columns:
            sheet.faults.append(Fault(file, where, title, "each column once"))
        else:
            sheet.columns[known[key]] = at
    if not is_product and sheet.columns.get("stride") == len(header.cells) - 1:
        sheet.columns.setdefault("stride_w", len(header.cells))  # as in SCALE-Sim's own files
    nameless = {"name"} if is_product else set()
    lacking = [needed[name] for name in needed if name not in {*sheet.columns, *nameless}]
    if lacking:
        allowed = f"a header with {', '.join(needed.values())}; {', '.join(lacking)} is not there"
        sheet.faults.append(Fault(file, f"line {header.line}", ", ".join(header.cells), allowed))
    if sheet.faults:
        raise InputError(sheet.faults)
    return sheet


def _key(title: str) -> str:
    key = re.sub(r"[^a-z0-9]", "", title.lower())
    return _ALIASES.get(key, key)


def _name(sheet: _Sheet, row: _Row) -> str:
    name = "_".join(sheet.cell(row, "name").split())
    if not name:
        sheet.fault(row, "name", ABSENT, "a name")
    for one in name_faults(sheet.file, "name", [name] if name else []):
        sheet.fault(row, "name", one.value, one.allowed)
    return name


def _estimate(sheet: _Sheet, row: _Row) -> float | None:
    """Read the cycles that are expected of a layer, of which there may be parts."""
    text = sheet.cell(row, "given")
    if not text:
        return None
    if _CYCLES.fullmatch(text) and float(text) > 0:
        return int(text) if text.isdigit() else float(text)
    sheet.fault(row, "given", text, f"cycles: a number above 0, at most {_DIGITS} digits")
    return None


def _conv(sheet: _Sheet, row: _Row) -> Shape:
    known = len(sheet.faults)
    sizes = {key: sheet.size(row, key) for key in ("height", "width", "r", "s", "c", "m", "stride")}
    step_w = sheet.size(row, "stride_w", sizes["stride"])
    are_sizes = len(sheet.faults) == known
    _refuse_sparsity(sheet, row)
    for inside, around in (("r", "height"), ("s", "width")):
        if are_sizes and sizes[inside] > sizes[around]:
            title = sheet.titles[around]
            sheet.fault(row, inside, sizes[inside], f"at most the {title}, {sizes[around]}")
    groups = sizes["c"] if "DP" in sheet.cell(row, "name") else 1
    return Conv(
        g=groups,
        m=sizes["m"],
        c=sizes["c"] // groups,
        p=_outputs(sizes["height"], sizes["r"], sizes["stride"]),
        q=_outputs(sizes["width"], sizes["s"], step_w),
        r=sizes["r"],
        s=sizes["s"],
        stride=(sizes["stride"], step_w),
    )


def _product(sheet: _Sheet, row: _Row) -> Shape:
    m, n, k = (sheet.size(row, key) for key in "mnk")
    _refuse_sparsity(sheet, row)
    return Product(b=sheet.size(row, "b", 1), m=m, n=n, k=k)


def _outputs(size: int, reach: int, stride: int) -> int:
    """Return ceil((size - reach + stride) / stride), as SCALE-Sim does."""
    return -(-(size - reach + stride) // stride)


def _refuse_sparsity(sheet: _Sheet, row: _Row) -> None:
    text = sheet.cell(row, "sparsity")
    if text and not _DENSE.fullmatch(text):
        sheet.fault(row, "sparsity", text, "1:1; simaccel has no sparsity")


def _refuse_surplus(sheet: _Sheet, row: _Row) -> None:
    """Refuse cells without a title."""
    count = max(sheet.columns.values()) + 1
    for at in range(count, len(row.cells)):
        where = f"line {row.line}, column {at + 1}"
        allowed = f"nothing; a row has at most {count} cells"
        sheet.faults.append(Fault(sheet.file, where, row.cells[at], allowed))
