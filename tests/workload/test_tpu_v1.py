"""Inferred shapes against what is published of the six programs of TPU v1."""

import csv
import math
from itertools import pairwise
from pathlib import Path

import pytest

from simaccel.workload import Vector
from simaccel.workload.conv import Conv
from simaccel.workload.layers import Layers, LayerShape
from simaccel.workload.networks import Network, find_network, network
from validation.tpu_v1.programs import PROGRAMS, alternatives

DATA = Path(__file__).parents[2] / "validation" / "tpu_v1" / "data"
NETWORKS = [find_network(f"tpu_v1_{program}") for program in PROGRAMS]
SHAPES = [
    (one.name, which, shapes.layers)
    for program, one in zip(PROGRAMS, NETWORKS, strict=True)
    for which, shapes in {"inferred": one, **alternatives(program)}.items()
]


def _published() -> dict[str, dict[str, str]]:
    with (DATA / "programs.csv").open(newline="", encoding="utf-8") as file:
        return {f"tpu_v1_{row['program']}": row for row in csv.DictReader(file)}


def _counted() -> dict[str, dict[str, str]]:
    with (DATA / "counters.csv").open(newline="", encoding="utf-8") as file:
        return {row["what"]: row for row in csv.DictReader(file)}


def _macs(shape: LayerShape) -> int:
    return math.prod(shape.ranks.values())


def _active(shape: LayerShape) -> int:
    """MACs of whole tiles of 256 x 256: one position of a window and one matrix at a time."""
    if isinstance(shape, Conv):
        tiles = shape.r * shape.s * -(-shape.c // 256) * -(-shape.m // 256)
        return tiles * 256**2 * shape.n * shape.p * shape.q
    return shape.b * -(-shape.k // 256) * -(-shape.n // 256) * 256**2 * shape.m


def _sum(layers: Layers, what: str) -> int:
    return sum(getattr(one, what) for one in layers.values())


@pytest.mark.parametrize(("name", "which", "layers"), SHAPES)
def test_layers_and_weights_are_the_published_ones(name: str, which: str, layers: Layers) -> None:
    row = _published()[name]
    count = sum(int(word) for word in row["layers"].split() if word.isdigit())
    others = {"lstm0": 34, "lstm1": 19, "cnn1": 13}.get(row["program"], 0)
    assert len(layers) == count - others, which
    assert _sum(layers, "weights") / 1e6 == pytest.approx(float(row["weights_millions"]), rel=0.05)


@pytest.mark.parametrize(("name", "which", "layers"), SHAPES)
def test_macs_per_weight_byte_are_the_published_ones(name: str, which: str, layers: Layers) -> None:
    intensity = sum(map(_macs, layers.values())) / _sum(layers, "weights")
    published = float(_published()[name]["macs_per_weight_byte"])
    assert intensity == pytest.approx(published, rel=0.03), which


@pytest.mark.parametrize("one", NETWORKS, ids=lambda one: one.name)
def test_useful_macs_are_the_counted_part_of_the_active_ones(one: Network) -> None:
    """Of what is inferred; within three points of a hundred."""
    name, layers = one.name, one.layers
    counted, program = _counted(), name.removeprefix("tpu_v1_")
    published = float(counted["useful"][program]) / float(counted["active"][program])
    found = sum(map(_macs, layers.values())) / sum(map(_active, layers.values()))
    assert found == pytest.approx(published, abs=0.03)


def test_the_counters_add_up() -> None:
    counted = _counted()
    for program in ("mlp0", "mlp1", "lstm0", "lstm1", "cnn0", "cnn1"):
        parts = ("active", "weight_stall", "weight_shift", "rest")
        assert sum(float(counted[part][program]) for part in parts) == pytest.approx(100, abs=0.2)


@pytest.mark.parametrize("one", NETWORKS, ids=lambda one: str(one.name))
def test_as_a_whole_it_has_the_vector_and_pooling_layers_of_table_1(one: Network) -> None:
    alone, whole = network(one.name, scope="layers"), network(one.name)
    vectors = [each for each in whole.operators if isinstance(each, Vector)]
    words = _published()[one.name]["layers"].replace(",", "").split()
    counted = {kind: int(n) for n, kind in pairwise(words) if kind in ("vector", "pooling")}
    assert len(vectors) == sum(counted.values())
    assert whole.macs == alone.macs
    made = {each.output.tensor for each in whole.operators}
    for each in whole.operators[1:]:
        assert each.inputs[0].tensor in made | {"image"}
