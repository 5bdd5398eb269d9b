"""SCALE-Sim topologies: CSV files with a layer a row, convolutions or matrix products.

    Layer name,IFMAP Height,IFMAP Width,Filter Height,Filter Width,Channels,Num Filter,Strides,
    Conv1,227,227,11,11,3,96,4,

    Layer,M,N,K,
    qkv,128,1536,512,

Read as SCALE-Sim 3 does (scalesim/topology_utils.py):

- Columns count by their position, whatever the first line calls them; that line is no layer. Where
  it has the titles above in another order, the file is refused.
- Nothing is padded: the IFMAP counts with its padding, and the output has
  ceil((IFMAP - filter + stride) / stride) rows: a last step that fits in part counts.
- A name with "DP" is a depth-wise convolution: a group for each channel.
- A product is O[M,N] = I[M,K] W[K,N].

Beside these there may be columns of these titles, wherever: Stride Width (a number after the
strides without a title is one, too), Batch (of a product, which it repeats with other factors),
Sparsity, and Estimate, with the cycles that one expects of a layer, for `load_estimates`. Other
columns, sparsity other than 1:1 and lines with a name alone are accounted for. Layers of the same
name get _2, _3, ...; what a name can't hold becomes an underscore; of products the names may be
left out (layer1, layer2, ...).
"""

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Final, NamedTuple

from simaccel.errors import ABSENT, Fault, InputError, require_none
from simaccel.files.accounting import AccountEntry, FileAccount
from simaccel.files.documents import read_text
from simaccel.files.limits import MAX_OPERATORS, require_at_most
from simaccel.workload.conv import Conv
from simaccel.workload.layers import (
    Layers,
    LayerShape,
    Product,
    distinct_names,
    layers_workload,
    one_layer,
    with_batch,
)
from simaccel.workload.names import MAX_LAYER_SIZE, clean_name, size_faults
from simaccel.workload.workload import Workload

_CONV: Final = {
    "name": "Layer name",
    "height": "IFMAP Height",
    "width": "IFMAP Width",
    "r": "Filter Height",
    "s": "Filter Width",
    "c": "Channels",
    "m": "Num Filter",
    "stride": "Strides",
}
_PRODUCT: Final = {"name": "Layer", "m": "M", "n": "N", "k": "K"}
_OPTIONAL_CONV: Final = {"stride_w": "Stride Width", "sparsity": "Sparsity", "given": "Estimate"}
_OPTIONAL_PRODUCT: Final = {"b": "Batch", "sparsity": "Sparsity", "given": "Estimate"}
_ALIASES: Final = {
    "layer": "layername",
    **dict.fromkeys(("strideheight", "strideh", "stride"), "strides"),
    "stridew": "stridewidth",
    "numfilters": "numfilter",
    "sparsityratio": "sparsity",
}
_LAYOUT: Final = re.compile(r"intraline|interline", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}")
_MOST_COLUMNS = 100
_DIGITS = 18
_CYCLES = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?")
_COUNTS: Final = ("spars", "batch", "group", "repeat", "dilation")  # 1 is as good as nothing
_DENSE = re.compile(r"([0-9]+):\1|1?")


@dataclass
class _Sheet:
    """A file that is being read: the column of each key, the faults, and the account."""

    file: str
    titles: Mapping[str, str]
    columns: dict[str, int]
    header: list[str]
    faults: list[Fault] = field(default_factory=list)
    entries: list[AccountEntry] = field(default_factory=list)

    def cell(self, row: "_CsvRow", key: str) -> str:
        """Return the text of a cell; empty if the row or the file lacks its column."""
        at = self.columns.get(key)
        return row.cells[at] if at is not None and at < len(row.cells) else ""

    def fault(self, row: "_CsvRow", key: str, value: object, allowed: str) -> None:
        """Add a fault of a cell, with its line and column."""
        at = self.columns[key] + 1
        where = f"line {row.line}, column {at} ({self.titles[key]})"
        self.faults.append(Fault(self.file, where, value, allowed))

    def size(self, row: "_CsvRow", key: str, default: int | None = None) -> int:
        """Read a size; 1 where it is none, with a fault."""
        text = self.cell(row, key)
        if not text and default is not None:
            return default
        value = int(text) if _NUMBER.fullmatch(text) else text or ABSENT
        faults = size_faults(self.file, {key: value}, MAX_LAYER_SIZE)
        for one in faults:
            self.fault(row, key, one.value, one.allowed)
        return 1 if faults else int(text)


class _CsvRow(NamedTuple):
    line: int
    cells: list[str]


class _Topology(NamedTuple):
    """The content of a file: layers by name, expected cycles by layer, and its account."""

    layers: Layers
    estimates: dict[str, float]
    account: FileAccount


def load_topology(
    path: str | Path,
    *,
    batch: int = 1,
    layer: str | None = None,
    bytes_per_element: int | None = None,
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
        sheet = read_topology(path)
        layers = one_layer(sheet.layers, layer, str(path))
    except InputError as error:
        raise InputError([*faults, *error.faults]) from None
    require_none(faults)
    made = layers_workload(
        clean_name(Path(path).stem),
        with_batch(layers, batch),
        bytes_per_element=bytes_per_element,
        bytes_by_tensor=bytes_by_tensor,
    )
    return replace(made, account=sheet.account)


def load_estimates(path: str | Path) -> dict[str, float]:
    """Return the cycles in the column Estimate by layer, without layers where it is empty.

    Raises:
        InputError: all faults of the file, each with line and column.
    """
    return read_topology(path).estimates


def read_topology(path: str | Path) -> _Topology:
    """Read the layers, their expected cycles, and the account of all other cells.

    Raises:
        InputError: all faulty cells, or there is no layer.
    """
    header, *rows = _rows(str(path))
    require_at_most(str(path), "layers", len(rows), MAX_OPERATORS, "layers")
    sheet = _sheet(str(path), header, rows)
    rows = [row for row in rows if not _is_heading(sheet, row)]
    read = _product if "k" in sheet.titles else _conv
    names, shapes, estimates = [], [], []
    for number, row in enumerate(rows, 1):
        names.append(_name(sheet, row) if "name" in sheet.columns else f"layer{number}")
        shapes.append(read(sheet, row))
        estimates.append(_estimate(sheet, row))
    if not rows:
        after = f"line {header.line + 1}"
        sheet.faults.append(Fault(sheet.file, after, ABSENT, "at least one layer"))
    require_none(sheet.faults)
    names = distinct_names(names)
    layers = dict(zip(names, shapes, strict=True))
    taken = [
        AccountEntry(name, "taken", "a layer", "row", prod(shape.ranks.values()))
        for name, shape in layers.items()
    ]
    account = FileAccount(sheet.file, (*taken, *sheet.entries, *_account_columns(sheet, rows)))
    pairs = zip(names, estimates, strict=True)
    return _Topology(layers, {name: n for name, n in pairs if n is not None}, account)


def _rows(file: str) -> list[_CsvRow]:
    """Return the lines that are not blank."""
    rows = []
    for number, line in enumerate(read_text(Path(file), "CSV", "utf-8-sig").splitlines(), 1):
        try:
            cells = _cells(line)
        except csv.Error as error:
            raise InputError([Fault(file, f"line {number}", str(error), "CSV")]) from None
        if cells:
            rows.append(_CsvRow(number, cells))
    if not rows:
        raise InputError([Fault(file, "line 1", ABSENT, "a header and at least one layer")])
    return rows


def _cells(line: str) -> list[str]:
    """Return the cells of a line, without a comment and empty cells at its end."""
    cells = [cell.strip() for cell in next(csv.reader([line], strict=True), [])]
    comments = [at for at, cell in enumerate(cells) if at and cell.startswith("#")]
    cells = cells[: comments[0]] if comments else cells
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _sheet(file: str, header: _CsvRow, rows: list[_CsvRow]) -> _Sheet:
    """Find the columns: SCALE-Sim's by position, simaccel's own by title."""
    where, text, allowed = f"line {header.line}", ", ".join(header.cells), ""
    if len(header.cells) > _MOST_COLUMNS:
        text, allowed = f"{len(header.cells)} columns", f"at most {_MOST_COLUMNS} columns"
    elif _LAYOUT.search(text):
        allowed = "a topology; this is a SCALE-Sim layout of memory banks, which are not modelled"
    elif len(header.cells) == 1 and {"\t", ";"} & {*text}:
        signs = "tabs" if "\t" in text else "semicolons"
        allowed = f"commas between cells, not {signs}"
    require_none([Fault(file, where, text, allowed)] if allowed else [])
    keys = [_key(title) for title in header.cells]
    is_product = _is_product(keys, rows)
    needed = _PRODUCT if is_product else _CONV
    others = _OPTIONAL_PRODUCT if is_product else _OPTIONAL_CONV
    sheet = _Sheet(file, needed | others, {}, header.cells)
    for name, title in others.items():
        places = [at for at, key in enumerate(keys) if key == _key(title)]
        if places:
            sheet.columns[name] = places[0]
        sheet.faults += [
            Fault(file, f"{where}, column {at + 1}", header.cells[at], "each of these once")
            for at in places[1:]
        ]
    wanted = list(needed)[1:] if is_product and keys[0] == "m" else list(needed)
    width = max([len(keys), *(len(row.cells) for row in rows)])
    free = [at for at in range(width) if at not in sheet.columns.values()]
    sheet.columns |= dict(zip(wanted, free, strict=False))
    _require_header(sheet, where, keys, wanted)
    behind = sheet.columns.get("stride", width) + 1
    if not is_product and "stride_w" not in sheet.columns and behind == len(keys):
        sheet.columns["stride_w"] = behind  # as SCALE-Sim 2 reads a ninth number
    require_none(sheet.faults)
    return sheet


def _is_product(keys: list[str], rows: list[_CsvRow]) -> bool:
    """Return whether rows are products, by the titles, or by the first row without titles."""
    if {*map(_key, _CONV.values())} & {*keys[1:]}:
        return False
    if {"m", "n", "k"} & {*keys}:
        return True
    return bool(rows) and len(rows[0].cells) < len(_CONV)


def _require_header(sheet: _Sheet, where: str, keys: list[str], wanted: list[str]) -> None:
    """Refuse a first line that is a layer, and titles in another order than that of the columns."""
    known = {_key(sheet.titles[name]): name for name in wanted}
    titled = {known[key]: at for at, key in enumerate(keys) if key in known}
    order = ", ".join(sheet.titles[name] for name in wanted)
    slips = any(key in known and keys.count(key) > 1 for key in keys)  # not another order
    allowed = ""
    if not {*wanted} <= {*sheet.columns}:
        allowed = "columns"
    elif len(keys) > 1 and all(map(_NUMBER.fullmatch, sheet.header[1:])):
        allowed = "a line of titles first, as SCALE-Sim skips it:"
    elif not slips and any(sheet.columns[name] != at for name, at in titled.items()):
        allowed = "the columns of SCALE-Sim in its order, as it reads them by position:"
    if allowed:
        header = ", ".join(sheet.header)
        sheet.faults.append(Fault(sheet.file, where, header, f"{allowed} {order}"))


def _key(title: str) -> str:
    key = re.sub(r"[^a-z0-9]", "", title.lower())
    return _ALIASES.get(key, key)


def _is_heading(sheet: _Sheet, row: _CsvRow) -> bool:
    """Return whether a line has a name and no sizes; if so, add it to the account."""
    at = sheet.columns.get("name", -1)
    if at < 0 or any(cell for place, cell in enumerate(row.cells) if place != at):
        return False
    name = f"line {row.line} ({row.cells[at]})"
    sheet.entries.append(AccountEntry(name, "harmless", "a heading: a name without sizes", "row"))
    return True


def _account_columns(sheet: _Sheet, rows: list[_CsvRow]) -> Iterator[AccountEntry]:
    """Yield the account entry of each column that is unknown or has another title."""
    for name, at in sheet.columns.items():
        title = sheet.header[at] if at < len(sheet.header) else ""
        if title and _key(title) != _key(sheet.titles[name]):
            why = f"read as {sheet.titles[name]}, by its position"
            yield AccountEntry(f"column {at + 1} ({title})", "harmless", why, "column")
    first = max(sheet.columns.values()) + 1
    width = max((len(row.cells) for row in rows), default=0)
    for at in range(width):
        if at in sheet.columns.values():
            continue
        title = sheet.header[at] if at < len(sheet.header) else ""
        cells = {row.cells[at] for row in rows if at < len(row.cells)} - {""}
        name = f"column {at + 1}" + (f" ({title})" if title else "")
        if not (cells or title):
            continue
        is_count = not title or title.lower().startswith(_COUNTS)
        if not cells or (is_count and all(map(_DENSE.fullmatch, cells))):
            yield AccountEntry(name, "harmless", "nothing, or dense (1:1)", "column")
        elif at > first or not any(cell.isdecimal() or ":" in cell for cell in cells):
            yield AccountEntry(name, "not taken", "SCALE-Sim reads no such column", "column")
        else:
            why = "sparsity, padding (it counts with the IFMAP), or a batch (name it Batch)?"
            yield AccountEntry(name, "not taken", why, "column", None)


def _name(sheet: _Sheet, row: _CsvRow) -> str:
    name = clean_name("_".join(sheet.cell(row, "name").split()))
    if not name:
        sheet.fault(row, "name", ABSENT, "a name")
    return name


def _estimate(sheet: _Sheet, row: _CsvRow) -> float | None:
    """Return the expected cycles of a layer, which need not be whole; None without any."""
    if not (text := sheet.cell(row, "given")):
        return None
    if _CYCLES.fullmatch(text) and float(text) > 0:
        return int(text) if text.isdigit() else float(text)
    sheet.fault(row, "given", text, f"cycles: a number above 0, at most {_DIGITS} digits")
    return None


def _conv(sheet: _Sheet, row: _CsvRow) -> LayerShape:
    known = len(sheet.faults)
    height, width, r, s, c, m, step = (sheet.size(row, key) for key in [*_CONV][1:])
    steps = step, sheet.size(row, "stride_w", step)
    are_sizes = len(sheet.faults) == known
    _account_sparsity(sheet, row)
    for inside, around, taps, rows in (("r", "height", r, height), ("s", "width", s, width)):
        if are_sizes and taps > rows:
            sheet.fault(row, inside, taps, f"at most the {sheet.titles[around]}, {rows}")
    g = c if "DP" in sheet.cell(row, "name") else 1
    reaches = zip((height, width), (r, s), steps, strict=True)
    p, q = (-(-(size - reach + stride) // stride) for size, reach, stride in reaches)
    return Conv(g=g, m=m, c=c // g, p=p, q=q, r=r, s=s, stride=steps)


def _product(sheet: _Sheet, row: _CsvRow) -> LayerShape:
    m, n, k = (sheet.size(row, key) for key in "mnk")
    _account_sparsity(sheet, row)
    return Product(b=sheet.size(row, "b", 1), m=m, n=n, k=k)


def _account_sparsity(sheet: _Sheet, row: _CsvRow) -> None:
    text = sheet.cell(row, "sparsity")
    if not _DENSE.fullmatch(text):
        name = f"line {row.line}, column {sheet.columns['sparsity'] + 1} (Sparsity)"
        why = f"{text}: sparsity is not modelled, also where SCALE-Sim leaves out zeros"
        sheet.entries.append(AccountEntry(name, "not taken", why, "sparsity", None))
