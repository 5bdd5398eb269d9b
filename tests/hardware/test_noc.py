import itertools
from collections.abc import Hashable
from typing import TypeGuard

import networkx as nx
import pytest

from simaccel.hardware import NocSpec, Rate, Topology
from simaccel.hardware.noc import DistributionSpec, hops_and_bisection

SIZES = list(itertools.product([1, 2, 3, 4, 5, 7, 8], repeat=2))


def _drawn(topology: Topology, rows: int, cols: int) -> "nx.Graph[Hashable]":
    """Draw the links from the node ``"buffer"`` to the PEs ``(row, col)``.

    Edges carry ``link``, the wire that they are part of: taps of one bus share a wire.
    """
    graph: nx.Graph[Hashable] = nx.Graph()
    pes = [(r, c) for c in range(cols) for r in range(rows)]
    if topology == "bus":
        graph.add_edges_from((("buffer", pe) for pe in pes), link="bus")
    elif topology == "crossbar":
        graph.add_edges_from(("buffer", pe, {"link": pe}) for pe in pes)
    elif topology == "systolic":
        graph.add_edges_from(("buffer", (r, 0), {"link": (r, 0)}) for r in range(rows))
        graph.add_edges_from(((r, c - 1), (r, c), {"link": (r, c)}) for r, c in pes if c)
    elif topology == "mesh":
        graph.add_edge("buffer", (0, 0), link="buffer")
        graph.add_edges_from(((r, c - 1), (r, c), {"link": (r, c, 0)}) for r, c in pes if c)
        graph.add_edges_from(((r - 1, c), (r, c), {"link": (r, c, 1)}) for r, c in pes if r)
    else:
        _add_tree(graph, "buffer", pes)
    return graph


def _add_tree(graph: "nx.Graph[Hashable]", root: Hashable, leaves: list[tuple[int, int]]) -> None:
    if len(leaves) == 1:
        graph.add_edge(root, leaves[0], link=leaves[0])
        return
    half = (len(leaves) + 1) // 2
    for part in (leaves[:half], leaves[half:]):
        child = part[0] if len(part) == 1 else ("switch", part[0], len(part))
        graph.add_edge(root, child, link=child)
        if len(part) > 1:
            _add_tree(graph, child, part)


def _is_pe(node: Hashable) -> TypeGuard[tuple[int, int]]:
    return isinstance(node, tuple) and isinstance(node[0], int)


def _counted_hops(graph: "nx.Graph[Hashable]", topology: Topology) -> int:
    depth = nx.single_source_shortest_path_length(graph, "buffer")
    hops = [h for node, h in depth.items() if _is_pe(node)]
    return min(hops) if topology == "systolic" else -(-sum(hops) // len(hops))


def _counted_wires(graph: "nx.Graph[Hashable]", topology: Topology, rows: int, cols: int) -> int:
    if topology in ("systolic", "mesh"):
        if cols == 1:
            return rows
        halves = {cols // 2 - 1, cols // 2}
        cut = [(u, v) for u, v in graph.edges if _is_pe(u) and _is_pe(v) and {u[1], v[1]} == halves]
        return len({graph.edges[edge]["link"] for edge in cut})
    # the wires that leave the buffer towards the smaller half of the PEs
    wires = {graph.edges["buffer", n]["link"] for n in graph["buffer"]}
    return max(1, len(wires) // 2)


@pytest.mark.parametrize("topology", ["systolic", "tree", "crossbar", "bus", "mesh"])
def test_the_closed_forms_count_the_graph(topology: Topology) -> None:
    for rows, cols in SIZES:
        graph = _drawn(topology, rows, cols)
        pes = set(itertools.product(range(rows), range(cols)))
        assert {node for node in graph if _is_pe(node)} == pes
        counted = _counted_hops(graph, topology), _counted_wires(graph, topology, rows, cols)
        assert hops_and_bisection(topology, rows, cols) == counted, (rows, cols)
    assert NocSpec(topology=topology).rate(2**20, 2**20).cycles(2**50) > 0


# Drawn by hand. Of 2 rows and 3 columns, (0,0) (0,1) (0,2) / (1,0) (1,1) (1,2):
#   systolic  buffer feeds (0,0) and (1,0); two chains cross between columns 0 and 1
#   mesh      buffer feeds (0,0): hops 1 2 3 / 2 3 4, on average 2.5; two wires cross
#   tree      6 = 3 + 3, 3 = 2 + 1: hops 3 3 2 3 3 2, on average 2.67; one wire to the far half
#   crossbar  one hop, one wire per PE, 3 of them to half of the PEs
#   bus       one hop, one wire
@pytest.mark.parametrize(
    ("topology", "rows", "cols", "hops", "wires"),
    [
        ("systolic", 2, 3, 1, 2),
        ("mesh", 2, 3, 3, 2),
        ("tree", 2, 3, 3, 1),
        ("crossbar", 2, 3, 1, 3),
        ("bus", 2, 3, 1, 1),
        ("systolic", 1, 1, 1, 1),
        ("systolic", 4, 4, 1, 4),
        ("mesh", 1, 1, 1, 1),
        ("mesh", 2, 2, 2, 2),  # 1 2 / 2 3
        ("mesh", 1, 4, 3, 1),  # 1 2 3 4, on average 2.5
        ("mesh", 4, 4, 4, 4),
        ("tree", 1, 1, 1, 1),
        ("tree", 1, 2, 1, 1),
        ("tree", 1, 3, 2, 1),  # 2 2 1, on average 1.67
        ("tree", 2, 2, 2, 1),
        ("tree", 4, 4, 4, 1),
        ("crossbar", 1, 1, 1, 1),
        ("crossbar", 3, 3, 1, 4),
        ("bus", 8, 8, 1, 1),
    ],
)
def test_small_arrays_drawn_by_hand(
    topology: Topology, rows: int, cols: int, hops: int, wires: int
) -> None:
    assert hops_and_bisection(topology, rows, cols) == (hops, wires)


def test_a_pipe_is_as_wide_as_its_bisection() -> None:
    """An unlimited one costs nothing."""
    pipe = NocSpec(topology="systolic", link_bytes_per_cycle=4, hop_cycles=3)
    assert pipe.rate(16, 32) == Rate(128, 1)
    assert pipe.latency_cycles(32, 16) == 3
    mesh = NocSpec(topology="mesh", link_bytes_per_cycle=8, hop_cycles=2)
    assert mesh.rate(4, 4) == Rate(32, 1)
    assert mesh.latency_cycles(4, 4) == 8
    pipe = NocSpec(topology="unlimited", hop_cycles=9)
    assert pipe.rate(256, 256).unlimited
    assert pipe.latency_cycles(256, 256) == 0


@pytest.mark.parametrize(
    ("rows", "cols", "link", "rate"),
    [
        (32, 32, 4, Rate(128, 1)),
        (8, 128, 4, Rate(272, 1)),
        (128, 8, 4, Rate(272, 1)),
        (1, 2, 1, Rate(3, 2)),
    ],
)
def test_operands_enter_a_systolic_array_by_rows_and_columns(
    rows: int, cols: int, link: int, rate: Rate
) -> None:
    pipe = DistributionSpec(topology="systolic", link_bytes_per_cycle=link)
    assert pipe.rate(rows, cols) == rate
    assert DistributionSpec(topology="mesh", link_bytes_per_cycle=link).rate(8, 4) == Rate(
        8 * link, 1
    )


def test_results_leave_a_systolic_array_by_its_columns() -> None:
    pipe = NocSpec(topology="systolic", link_bytes_per_cycle=4)
    assert pipe.rate(128, 8) == Rate(32, 1)
    assert pipe.rate(8, 128) == Rate(512, 1)
