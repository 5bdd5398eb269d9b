"""Mixture of experts: how tokens are spread, and each expert's layers by its own count.

Which experts a token gets is given, not computed: uniform, a list of counts, or drawn with a
seed. Loads of an expert's rows gather them; choosing the experts costs nothing. With several
sequences of several tokens each, every sequence spreads its tokens alike.

``grouped`` is how experts are cut over chips (Lepikhin et al., "GShard: scaling giant models with
conditional computation and automatic sharding", 2020, algorithm 2): all experts are one operator,
and groups of tokens give each of them as many. Masks bring the tokens of a group to places at each
expert (``dispatch``) and weigh what comes back (``combine``); both are products on the array.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from simaccel.errors import Fault
from simaccel.lazy import np
from simaccel.workload.einsum import AffineDimension, Operand
from simaccel.workload.language.attention import add_bias
from simaccel.workload.language.feed_forward import add_feed_forward
from simaccel.workload.language.graph import Graph, part
from simaccel.workload.language.model import Transformer
from simaccel.workload.language.phase import PhaseTokens

Spread = str | Sequence[int]
"""How tokens are spread over experts: ``uniform``, ``expected``, ``drawn:SEED``, or counts.

``uniform`` gives all experts as many tokens as it can: of few tokens it is the worst case, as each
goes to experts that no other one needs. ``expected`` uses as many experts as tokens that choose at
random need on average, rounded, with as many tokens each. ``grouped``: in groups of tokens; of a
decode step in as many as there can be, so that chips can have some each, ``grouped:P`` in a
multiple of P.
"""
UNIFORM = "uniform"
GROUPED = "grouped"
EXPECTED = "expected"
_GROUPED = re.compile(rf"{GROUPED}(?::([1-9][0-9]{{0,8}}))?")
_MOST_GROUPED = 128
"""Tokens of a group at most: the products with masks grow with its square."""
_DRAWN = re.compile(r"drawn(?::([0-9]{1,9}))?")
_MANY_ROWS = 1024
"""More tokens than these leave no expert out."""
_ALLOWED = "uniform, expected, drawn or drawn:SEED, grouped or grouped:PARTS, or a count each"


def spread_faults(file: str, spread: Spread, experts: int, chosen: int, rows: int) -> list[Fault]:
    """Return what is wrong with how ``rows`` tokens are spread over experts."""
    if isinstance(spread, str):
        known = spread in (UNIFORM, EXPECTED) or _DRAWN.fullmatch(spread)
        return [] if known else [Fault(file, "experts", spread, _ALLOWED)]
    if not experts:
        return [Fault(file, "experts", list(spread), "nothing, as the model has none")]
    faults = []
    if len(spread) != experts:
        faults.append(Fault(file, "experts", f"{len(spread)} counts", f"{experts} counts"))
    if any(type(count) is not int or not 0 <= count <= rows for count in spread):
        allowed = f"counts from 0 to {rows}, the tokens"
        faults.append(Fault(file, "experts", list(spread), allowed))
    elif sum(spread) != rows * chosen:
        allowed = f"a sum of {rows * chosen}: {rows} tokens with {chosen} experts each"
        faults.append(Fault(file, "experts", sum(spread), allowed))
    return faults


def expert_counts(spread: Spread, experts: int, chosen: int, rows: int) -> list[int]:
    """Return how many of ``rows`` tokens each expert gets; every token gets ``chosen`` others.

    >>> expert_counts("uniform", 8, 2, 5)
    [2, 2, 1, 1, 1, 1, 1, 1]
    >>> [expert_counts(how, 8, 2, 3) for how in ("uniform", "expected")]
    [[1, 1, 1, 1, 1, 1, 0, 0], [2, 1, 1, 1, 1, 0, 0, 0]]
    """
    if not isinstance(spread, str):
        return list(spread)
    if spread in (UNIFORM, EXPECTED):
        used = experts if spread == UNIFORM else _expected_experts(experts, chosen, rows)
        least, more = divmod(rows * chosen, used)
        return [(least + (at < more)) * (at < used) for at in range(experts)]
    match = _DRAWN.fullmatch(spread)
    seed = int(match[1] or 0) if match else 0
    keys = np.random.default_rng(seed).random((rows, experts))
    drawn = np.argsort(keys, axis=1)[:, :chosen]
    return [int(n) for n in np.bincount(drawn.ravel(), minlength=experts)]


def _expected_experts(experts: int, chosen: int, rows: int) -> int:
    """Return how many experts tokens need on average that choose at random, rounded."""
    idle = Fraction(experts - chosen, experts) ** min(rows, _MANY_ROWS)
    return max(chosen, min(experts, int(experts * (1 - idle) + Fraction(1, 2))))


def add_experts(
    graph: Graph, model: Transformer, tokens: PhaseTokens, spread: Spread, read: str, made: str
) -> None:
    """Add router, experts and the weighted sum of what they make."""
    rank = "n" if tokens.rows > 1 else "b"
    rows = tokens.rows if tokens.rows > 1 else tokens.batch
    if parts_of(spread):
        size = group_size(model, tokens, spread)
        _add_grouped(graph, model, rank, (rows // size, size), (read, made))
        return
    prefix = graph.prefix
    _add_router(graph, model, read)
    first = 0
    for at, count in enumerate(expert_counts(spread, model.experts, model.chosen, rows)):
        if not count:
            continue
        graph.prefix = f"{prefix}expert{at}."
        start = min(first % rows, rows - count)
        source = part(read, "bne", None if count == rows else {rank: start})
        all_slots = count == rows * model.chosen
        target = part(prefix + "E", "bne", None if all_slots else {rank: first})
        add_feed_forward(graph, model, source, target, {rank: count})
        first += count
    graph.prefix = prefix
    _combine(graph, model, rank, rows, made)


def parts_of(spread: Spread) -> int:
    """Return the parts that groups of tokens can be cut into; 0 where they are not grouped.

    >>> parts_of("grouped:8"), parts_of("grouped"), parts_of("uniform")
    (8, 1, 0)
    """
    match = _GROUPED.fullmatch(spread) if isinstance(spread, str) else None
    return int(match[1] or 1) if match else 0


def group_faults(model: Transformer, tokens: PhaseTokens, spread: Spread) -> list[Fault]:
    """Return what is wrong with groups of tokens."""
    if not model.experts:
        allowed = "nothing, and no --expert-parallel, as the model has none"
        return [Fault(model.name, "experts", spread, allowed)]
    if group_size(model, tokens, spread):
        return []
    rows, parts = tokens.rows, 1
    if rows == 1:
        rows, parts = tokens.batch, parts_of(spread)
    least = parts * (model.experts // math.gcd(model.experts, model.chosen))
    allowed = f"a multiple of {least} tokens, of which each expert gets as many; these {rows}"
    return [Fault(model.name, "experts", spread, allowed)]


def group_size(model: Transformer, tokens: PhaseTokens, spread: Spread) -> int:
    """Return the tokens of a group; 0 where none gives each expert as many.

    Of a decode step the least, or the most that leave so many parts; else the most.

    >>> from simaccel.workload.language.model import find_transformer
    >>> mixtral, step = find_transformer("mixtral-8x7b"), PhaseTokens(batch=64, rows=1)
    >>> group_size(mixtral, step, "grouped"), group_size(mixtral, step, "grouped:4")
    (4, 16)
    >>> group_size(mixtral, PhaseTokens(batch=1, rows=512), "grouped")
    128
    """
    is_step, rows, parts = tokens.rows == 1, tokens.rows, 1
    if is_step:
        rows, parts = tokens.batch, parts_of(spread)
    sizes = [
        size
        for size in range(1, min(_MOST_GROUPED, rows // parts) + 1)
        if rows % (size * parts) == 0 and size * model.chosen % model.experts == 0
    ]
    if not sizes:
        return 0
    return sizes[0] if is_step and spread == GROUPED else sizes[-1]


def _add_grouped(
    graph: Graph, model: Transformer, rank: str, groups: tuple[int, int], ends: tuple[str, str]
) -> None:
    """Add router, dispatch, all experts as one, and combine; tokens t of each expert x."""
    (count, size), (read, made), prefix = groups, ends, graph.prefix
    places = size * model.chosen // model.experts
    sizes = {"u": count, "s": size, "c": places, "t": count * places}
    other = "b" if rank == "n" else "n"
    graph.tensor(prefix + "G", "output")  # the masks stand for what is made of it
    _add_router(graph, model, read)
    tokens = AffineDimension((("u", size), ("s", 1)))
    slots = AffineDimension((("u", places), ("c", 1)))
    masks = [
        part(graph.tensor(prefix + name, "input"), (other, "u", "s", "x", "c"))
        for name in ("mask", "weights")
    ]
    outer, e, x = (AffineDimension(((name, 1),)) for name in (other, "e", "x"))
    rows = (outer, tokens, e) if rank == "n" else (tokens, outer, e)
    sent = Operand(prefix + "D", (x, outer, slots, e))
    graph.einsum("dispatch", (masks[0], Operand(read, rows)), sent, sizes)
    graph.prefix = f"{prefix}experts."
    ranks = ("x", other, "t", "e")
    source, target = part(prefix + "D", ranks), part(prefix + "E", ranks)
    add_feed_forward(graph, model, source, target, sizes, "x")
    graph.prefix = prefix
    back = Operand(prefix + "E", (x, outer, slots, e))
    graph.einsum("combine", (masks[1], back), Operand(made, rows), sizes)


def _add_router(graph: Graph, model: Transformer, read: str) -> None:
    prefix = graph.prefix
    router, biased = part(graph.weight("Wrouter"), "ex"), "router" in model.biased
    raw = part(prefix + ("R0" if biased else "R"), "bnx")
    graph.einsum("router", (part(read, "bne"), router), raw)
    if biased:
        add_bias(graph, "router", raw.tensor, part(prefix + "R", "bnx"), ("x",))
    gates = part(prefix + "G", "bnx")
    graph.vector("router.softmax", "softmax", (part(prefix + "R", "bnx"),), gates, axis="x")


def _combine(graph: Graph, model: Transformer, rank: str, rows: int, made: str) -> None:
    prefix, parts = graph.prefix, []
    for k in range(model.chosen):
        gate, weighed = part(f"{prefix}g{k}", "bn"), f"{prefix}E{k}"
        gates = part(prefix + "G", "bnx")
        graph.vector(f"gate{k}", "largest", (gates,), gate, scale=float(k + 1))
        start = None if model.chosen == 1 else {rank: k * rows}
        inputs = (part(prefix + "E", "bne", start), gate)
        target = part(weighed if model.chosen > 1 else made, "bne")
        parts.append(graph.vector(f"weigh{k}", "product", inputs, target))
    for k in range(1, model.chosen):
        total = made if k == model.chosen - 1 else f"{prefix}E0to{k}"
        inputs = (part(parts[0], "bne"), part(parts[k], "bne"))
        parts[0] = graph.vector(f"sum{k}", "residual", inputs, part(total, "bne"))
