"""Files of other tools as people have them: read, refused by name, or wrong.

``python -m validation.files.run [FOLDER...]`` writes ``files.csv``: of every file in `made` its
kind, what became of it, MACs and bytes of its tensors as simaccel has them, and beside them a count
that shares nothing with the importers: sizes by position out of the text. Of the files in the
folders, of which each sub-folder is a package that others wrote, the same stands in ``corpus.csv``.
"""

from __future__ import annotations

import configparser
import csv
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from simaccel.errors import InputError
from simaccel.importers.accelerators import load_accelerator
from simaccel.importers.workloads import load_workload

HERE = Path(__file__).parent
ENDINGS = (".yaml", ".yml", ".cfg", ".csv", ".m", ".json")
COLUMNS = ("file", "kind", "became", "macs", "macs_counted", "bytes", "bytes_counted", "says")
Counts = tuple[int, int]
"""MACs, and bytes of all tensors at one byte an element."""


def count_topology(path: Path) -> Counts:
    """Count a topology by position, as SCALE-Sim reads it."""
    macs = elements = 0
    for line in path.read_text().splitlines()[1:]:
        cells = [cell.strip() for cell in line.split(",")]
        numbers = [int(cell) for cell in cells[1:8] if cell.isdecimal()]
        if len(numbers) >= 7:
            h, w, r, s, c, m, stride = numbers[:7]
            p, q = (math.ceil((size - f + stride) / stride) for size, f in ((h, r), (w, s)))
            groups = c if "DP" in cells[0] else 1
            macs += p * q * r * s * c * m
            reach = ((p - 1) * stride + r) * ((q - 1) * stride + s)
            elements += reach * c + r * s * c * m + p * q * m * groups
        elif len(numbers) >= 3:
            m, n, k = numbers[:3]
            macs += m * n * k
            elements += m * k + k * n + m * n
    return macs, elements


def count_problem(path: Path) -> Counts:
    """Count a Timeloop problem: all points, and the spans of the projections."""
    problem = yaml.safe_load(path.read_text())["problem"]
    instance, shape = problem["instance"], problem["shape"]
    if isinstance(shape, str):  # cnn-layer
        n = {name: instance.get(name, 1) for name in "CMRSNPQ"}
        step, across = instance.get("Wstride", 1), instance.get("Hstride", 1)
        rows, columns = (n["P"] - 1) * step + n["R"], (n["Q"] - 1) * across + n["S"]
        outputs = n["N"] * n["M"] * n["P"] * n["Q"]
        inputs = n["N"] * n["C"] * rows * columns
        filters = n["M"] * n["C"] * n["R"] * n["S"]
        return outputs * n["C"] * n["R"] * n["S"], outputs + inputs + filters
    factors = {
        coefficient["name"]: coefficient.get("default", 1)
        for coefficient in shape.get("coefficients", [])
    }
    factors |= instance
    sizes = {name: instance.get(name, 1) for name in shape["dimensions"]}
    elements = 0
    for space in shape["data_spaces"]:
        spans = []
        for dim in space["projection"]:
            terms = [(term[0], factors[term[1]] if len(term) > 1 else 1) for term in dim]
            spans.append(1 + sum(factor * (sizes[rank] - 1) for rank, factor in terms))
        elements += math.prod(spans)
    return math.prod(sizes.values()), elements


def count_description(path: Path) -> Counts:
    """Count a MAESTRO description of convolutions by its dimensions."""
    macs = elements = 0
    for text in re.findall(r"Type:\s*\w+.*?Dimensions\s*\{[^}]*\}", path.read_text(), re.DOTALL):
        n = {dim: int(size) for dim, size in re.findall(r"\b([KCRSYX]):\s*(\d+)", text)}
        stride = re.search(r"Stride\s*\{\s*X:\s*(\d+)", text)
        step = int(stride[1]) if stride else 1
        p, q = ((n[a] - n[b]) // step + 1 for a, b in (("Y", "R"), ("X", "S")))
        if "TRCONV" in text:
            up = int(stride[1]) if stride else n["R"]
            p, q = n["Y"] * up, n["X"] * up
            macs += n["K"] * n["C"] * n["R"] * n["S"] * n["Y"] * n["X"]
            reach = (n["Y"] + n["R"] // up - 1) * (n["X"] + n["S"] // up - 1)
        else:
            macs += n["K"] * n["C"] * n["R"] * n["S"] * p * q
            reach = ((p - 1) * step + n["R"]) * ((q - 1) * step + n["S"])
        elements += n["C"] * reach + n["K"] * p * q + n["K"] * n["C"] * n["R"] * n["S"]
    return macs, elements


def count_config(path: Path) -> Counts:
    """Count the matrices of a layer of a decoder without experts, of 512 tokens; no bytes."""
    given = json.loads(path.read_text())
    e, f = given["hidden_size"], given["intermediate_size"]
    heads = given["num_attention_heads"]
    d = given.get("head_dim", e // heads)
    keys = given.get("num_key_value_heads", heads) * d
    n, blocks = 512, 8
    seen = sum(64 * 64 * (at + 1) for at in range(blocks))  # blocks of rows under the mask
    return n * (2 * e * heads * d + 2 * e * keys + 3 * e * f) + 2 * seen * heads * d, 0


COUNTS: dict[str, Callable[[Path], Counts]] = {
    "topology": count_topology,
    "problem": count_problem,
    "description": count_description,
    "config": count_config,
}


def kind_of(path: Path) -> str:
    """Return what a file is, by its name and a look at its text."""
    text = path.read_text(errors="replace")
    if path.suffix == ".cfg":
        return "configuration" if "[architecture_presets]" in text else "other"
    if "problem:" in text and path.suffix == ".yaml":
        return "problem"
    if "architecture:" in text or "- !Component" in text:
        return "architecture"
    if '"model_type"' in text:
        return "config"
    return {".csv": "topology", ".m": "description"}.get(path.suffix, "other")


def row(path: Path) -> dict[str, Any]:
    """Return what becomes of a file, with an independent count where it is a workload."""
    kind = kind_of(path)
    fields: dict[str, Any] = {"file": path.name, "kind": kind, "became": "read"}
    if kind == "other":
        return fields | _other(path)
    try:
        if kind in ("configuration", "architecture"):
            hardware = load_accelerator(path)
            hardware.account.require_modelled()
            fields["says"] = f"{len(hardware.account.entries_of('not taken'))} not taken"
            same = _same_array if kind == "configuration" else _same_meshes
            if not same(path, hardware.array):
                fields["became"] = "wrong"
            return fields
        made = load_workload(path, bytes_per_element=1)
        made.account.require_modelled()
    except InputError as error:
        return {**fields, "became": "refused by name", "says": str(error).partition(": ")[2][:120]}
    fields["macs"] = made.macs
    fields["bytes"] = sum(map(made.tensor_bytes, made.tensors)) if kind != "config" else 0
    fields["macs_counted"], fields["bytes_counted"] = COUNTS[kind](path)
    ours = (fields["macs"], fields["bytes"])
    if ours != (fields["macs_counted"], fields["bytes_counted"]):
        fields["became"] = "wrong"
    fields["says"] = f"{len(made.account.entries_of('not taken'))} not taken"
    return fields


def _other(path: Path) -> dict[str, Any]:
    """Return what becomes of a file that shows no kind of workload or accelerator."""
    says = []
    for load in (load_workload, load_accelerator):
        try:
            load(path)
        except InputError as error:
            says.append(str(error).partition(": ")[2].partition("\n")[0][:120])
        else:
            return {"became": "wrong", "says": "read as what it isn't"}
    named = all("this looks like" in one for one in says)
    return {"became": "refused by name" if named else "refused", "says": says[0]}


def _same_array(path: Path, array: Any) -> bool:  # noqa: ANN401 - systolic
    parser = configparser.ConfigParser()
    parser.read(path)
    given = parser["architecture_presets"]
    sides = (int(given["ArrayHeight"]), int(given["ArrayWidth"]))
    return sides == (array.rows, array.cols) and given["Dataflow"] == array.stationarity


def _same_meshes(path: Path, array: Any) -> bool:  # noqa: ANN401 - spatial
    meshes = math.prod(map(int, re.findall(r"mesh[XY]:\s*(\d+)", path.read_text())))
    return bool(meshes == array.rows * array.cols * array.vectors * array.lanes)


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a row for each file of a folder, which is named as in it."""
    for path in sorted(one for one in folder.rglob("*") if one.suffix in ENDINGS):
        yield {**row(path), "file": path.relative_to(folder).as_posix()}


def write(name: str, found: list[dict[str, Any]]) -> int:
    """Write a table, and say how many files of each fate there are; return those that are wrong."""
    with (HERE / name).open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    folders = [one["file"].partition("/")[0] if "/" in one["file"] else "" for one in found]
    fates = [one["became"] for one in found]
    for (folder, fate), count in sorted(Counter(zip(folders, fates, strict=True)).items()):
        print(f"{name} {folder} {fate}: {count}")
    return fates.count("wrong")


def main(folders: list[str]) -> int:
    """Write the tables."""
    wrong = write("files.csv", list(rows(HERE / "made")))
    if folders:
        wrong += write("corpus.csv", [one for each in folders for one in rows(Path(each))])
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
