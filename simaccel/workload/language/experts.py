"""Mixture of experts: the spread of tokens over experts, and experts of equal load as one operator.

The spread is given, not computed: uniform, a list of counts, or drawn with a seed. Each token is
copied to its experts' rows (``dispatch``), and their outputs are weighted and added; the choice of
experts costs nothing. Experts with equally many tokens are one operator over their rank x; experts
without tokens are left out. With several sequences of several tokens each, every sequence spreads
its tokens alike.

``grouped`` is the form for experts that are cut over chips (Lepikhin et al., "GShard: scaling giant
models with conditional computation and automatic sharding", 2020, algorithm 2): all experts are one
operator, and each group of tokens sends equally many to each. Masks bring the tokens of a group to
places at the experts (``dispatch``) and weight the outputs (``combine``); both are products on the
array.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby

from simaccel.errors import Fault
from simaccel.files.limits import MAX_DRAWN
from simaccel.lazy import np
from simaccel.workload.einsum import AffineDimension, Operand, Operator
from simaccel.workload.language.attention import add_bias
from simaccel.workload.language.feed_forward import EXPERTS, ExpertGroup, add_feed_forward
from simaccel.workload.language.graph import Graph, part
from simaccel.workload.language.model import Transformer
from simaccel.workload.language.phase import PhaseTokens

ExpertLoad = str | Sequence[int]
"""The spread of tokens over experts: ``expected``, ``uniform``, ``drawn:SEED``, or counts.

- ``expected``: as many experts as tokens with random choices use on average, rounded, with equally
  many tokens each; of many tokens all experts.
- ``uniform``: all experts equally; with few tokens the worst case, as each uses other experts.
- ``grouped``: in groups of tokens; of a decode step in as many groups as possible, so that chips
  can share them. ``grouped:P``: in a multiple of P groups. ``grouped:P:W``: experts padded to a
  multiple of W, so that each of W chips has as many places for them; of more chips than experts
  some have padding alone.
"""
UNIFORM = "uniform"
GROUPED = "grouped"
EXPECTED = "expected"
_GROUPED = re.compile(rf"{GROUPED}(?::([1-9][0-9]{{0,8}})(?::([1-9][0-9]{{0,3}}))?)?")
_MOST_GROUPED = 128
"""The most tokens of a group; the products with masks grow with its square."""
_DRAWN = re.compile(r"drawn(?::([0-9]{1,9}))?")
_MANY_ROWS = 1024
"""Number of tokens above which every expert gets some."""
_ALLOWED = (
    "uniform, expected, drawn or drawn:SEED, grouped, grouped:PARTS or grouped:PARTS:WAYS, or a "
    "count each"
)


def spread_faults(model: Transformer, spread: ExpertLoad, rows: int) -> list[Fault]:
    """Return the faults of a spread of ``rows`` tokens over a model's experts."""
    file, experts, chosen = model.name, model.experts, model.chosen
    if parts_of(spread):
        allowed = "nothing, as the model has no experts"
        return [] if experts else [Fault(file, "experts", spread, allowed)]
    if isinstance(spread, str):
        drawn = _DRAWN.fullmatch(spread)
        if drawn and rows * experts > MAX_DRAWN:
            allowed = f"at most {MAX_DRAWN // experts} tokens over {experts} experts, or uniform"
            return [Fault(file, "experts", f"{spread} of {rows} tokens", allowed)]
        known = spread in (UNIFORM, EXPECTED) or drawn
        return [] if known else [Fault(file, "experts", spread, _ALLOWED)]
    if not experts:
        return [Fault(file, "experts", list(spread), "nothing, as the model has no experts")]
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


def expert_counts(spread: ExpertLoad, experts: int, chosen: int, rows: int) -> list[int]:
    """Return the number of ``rows`` tokens of each expert; each token goes to ``chosen`` experts.

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


def add_experts(graph: Graph, spread: ExpertLoad, read: str, made: str) -> None:
    """Add router, experts, the weighted sum of what they make, and experts of all tokens."""
    model = graph.model
    chosen = f"{graph.prefix}Fchosen" if model.shared_ff else made
    if parts_of(spread):
        _add_grouped(graph, spread, read, chosen)
    else:
        _add_router(graph, read)
        rank, rows = graph.tokens.routed
        counts = expert_counts(spread, model.experts, model.chosen, rows)
        _dispatch(graph, read)
        _add_expert_groups(graph, rank, counts)
        _combine(graph, chosen)
    if model.shared_ff:
        _add_shared(graph, read, chosen, made)


def _add_shared(graph: Graph, read: str, chosen: str, total: str) -> None:
    """Add an expert that all tokens go to, and the sum of what it and the chosen ones make."""
    model, prefix = graph.model, graph.prefix
    graph.prefix = f"{prefix}shared."
    out = part(f"{prefix}Fshared", "bne")
    raw = part(f"{prefix}Fshared0", "bne") if model.shared_gate else out
    add_feed_forward(graph, part(read, "bne"), raw, {"f": model.shared_ff})
    if model.shared_gate:
        weights = part(graph.weight("Wscore"), "e")
        scores, gates = (part(f"{graph.prefix}{name}", "bn") for name in ("scores", "gates"))
        graph.einsum("score", (part(read, "bne"), weights), scores)
        graph.vector("sigmoid", "sigmoid", (scores,), gates)
        graph.vector("weigh", "product", (raw, gates), out)
    graph.prefix = prefix
    graph.vector("shared.add", "residual", (part(chosen, "bne"), out), part(total, "bne"))


def expert_groups(counts: Sequence[int]) -> list[ExpertGroup]:
    """Return experts with equal numbers of tokens, the most tokens first; those without left out.

    >>> [(each.first, each.count, each.tokens) for each in expert_groups([0, 2, 1, 1])]
    [(0, 1, 2), (1, 2, 1)]
    """
    several, found, first = len({n for n in counts if n}) > 1, list[ExpertGroup](), 0
    for tokens, each in groupby(sorted((n for n in counts if n), reverse=True)):
        count = len(list(each))
        found.append(ExpertGroup(first, count, tokens, whole=not several))
        first += count
    return found


def _add_expert_groups(graph: Graph, rank: str, counts: Sequence[int]) -> None:
    """Add the experts: those with as many tokens are one operator over their rank x.

    Operators of all counts stand one behind the other, projection by projection.
    """
    prefix, slices, start = graph.prefix, expert_groups(counts), 0
    before = len(graph.operators)
    for at, experts in enumerate(slices):
        graph.prefix = f"{prefix}{EXPERTS}" if experts.whole else f"{prefix}experts{at}."
        places = AffineDimension((("x", experts.tokens), ("t", 1)))
        if experts.tokens == 1:
            places = AffineDimension((("x", 1),))
        own = tuple(places if name == rank else AffineDimension(((name, 1),)) for name in "bne")
        begin = () if experts.whole else tuple(start if name == rank else 0 for name in "bne")
        source, target = (Operand(prefix + name, own, begin) for name in "DE")
        sizes = {"x": experts.count, "t": experts.tokens}
        add_feed_forward(graph, source, target, sizes, replace(experts, prefix=prefix))
        start += experts.count * experts.tokens
    graph.prefix, added = prefix, graph.operators[before:]

    def step(operator: Operator) -> str:
        return operator.name.removeprefix(prefix).partition(".")[2].rstrip("0123456789")

    steps = list(dict.fromkeys(map(step, added)))
    graph.operators[before:] = sorted(added, key=lambda operator: steps.index(step(operator)))


def _dispatch(graph: Graph, read: str) -> None:
    """Add the copies of the tokens that experts read, as many as each token has experts."""
    rank, rows = graph.tokens.routed
    for k in range(graph.model.chosen):
        start = {rank: k * rows} if graph.model.chosen > 1 else None
        target = part(graph.prefix + "D", "bne", start)
        graph.vector(f"dispatch{k}", "scale", (part(read, "bne"),), target)


def parts_of(spread: ExpertLoad) -> int:
    """Return the parts that groups of tokens can be cut into; 0 if they are not grouped.

    >>> parts_of("grouped:8"), parts_of("grouped"), parts_of("uniform")
    (8, 1, 0)
    """
    match = _GROUPED.fullmatch(spread) if isinstance(spread, str) else None
    return int(match[1] or 1) if match else 0


def ways_of(spread: ExpertLoad) -> int:
    """Return the number of chips that have as many places for experts each; 1 if none is given.

    >>> ways_of("grouped:1:3"), ways_of("grouped:8")
    (3, 1)
    """
    match = _GROUPED.fullmatch(spread) if isinstance(spread, str) else None
    return int((match and match[2]) or 1)


def group_size(model: Transformer, tokens: PhaseTokens, spread: ExpertLoad) -> int:
    """Return the tokens of a group; each expert gets equally many of them, if that is possible.

    Of a decode step the least possible size, with ``grouped:P`` the largest that leaves P parts; of
    other phases the largest. If no size is possible, the one with the fewest places at experts.

    >>> from simaccel.workload.language.model import find_transformer
    >>> mixtral, step = find_transformer("mixtral-8x7b"), PhaseTokens(batch=64, rows=1)
    >>> group_size(mixtral, step, "grouped"), group_size(mixtral, step, "grouped:4")
    (4, 16)
    >>> group_size(mixtral, PhaseTokens(batch=1, rows=512), "grouped")
    128
    >>> few = PhaseTokens(batch=8, rows=1)
    >>> group_size(mixtral, few, "grouped:8"), group_places(mixtral, few, "grouped:8")
    (4, (8, 1))
    """
    is_step, rows, parts = tokens.rows == 1, tokens.rows, 1
    if is_step:
        rows, parts = tokens.batch, parts_of(spread)
    for cut in dict.fromkeys((parts, 1)):  # chips have groups of their own, or see all tokens
        sizes = [
            size
            for size in range(1, min(_MOST_GROUPED, rows // cut) + 1)
            if rows % (size * cut) == 0 and size * model.chosen % model.experts == 0
        ]
        if sizes:
            return sizes[0] if is_step and (cut < parts or parts == 1) else sizes[-1]
    uneven = [size for size in range(1, min(_MANY_ROWS, rows) + 1) if rows % size == 0]
    return min(uneven, key=lambda size: rows // size * -(-size * model.chosen // model.experts))


def group_places(model: Transformer, tokens: PhaseTokens, spread: ExpertLoad) -> tuple[int, int]:
    """Return the number of experts in use, and the places at each for the tokens of a group.

    A single group of all tokens uses as many experts as ``expected``, at most one per choice, with
    equal loads; several groups use every expert.

    >>> from simaccel.workload.language.model import find_transformer
    >>> mixtral = find_transformer("mixtral-8x7b")
    >>> two = PhaseTokens(batch=2, rows=1)  # of 8 (1 - (6 / 8)^2) = 3.5
    >>> group_places(mixtral, two, "grouped:2")
    (4, 1)
    """
    size = group_size(model, tokens, spread)
    _, rows = tokens.routed
    used, parts = model.experts, max(parts_of(spread), ways_of(spread))
    if rows == size and parts > 1:
        needed = min(size * model.chosen, _expected_experts(used, model.chosen, size))
        used = min(used, -(-needed // parts) * parts)
    return used, -(-size * model.chosen // used)


def _add_grouped(graph: Graph, spread: ExpertLoad, read: str, made: str) -> None:
    """Add router, dispatch, all experts as one operator, and combine; tokens t of each expert x."""
    prefix, (rank, count) = graph.prefix, graph.tokens.routed
    size, ways = group_size(graph.model, graph.tokens, spread), ways_of(spread)
    experts, places = group_places(graph.model, graph.tokens, spread)
    experts, held = (-(-n // ways) * ways for n in (experts, graph.model.experts))  # padded
    groups = count // size
    t = groups * places
    sizes = {"u": groups, "s": size, "x": experts, "c": places, "t": t}
    other = "b" if rank == "n" else "n"
    graph.tensor(prefix + "G", "output")  # the masks stand for what is made of it
    _add_router(graph, read)
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
    of_all = ExpertGroup(0, experts, t, prefix=prefix, held=held)
    add_feed_forward(graph, source, target, sizes, of_all)
    graph.prefix = prefix
    back = Operand(prefix + "E", (x, outer, slots, e))
    graph.einsum("combine", (masks[1], back), Operand(made, rows), sizes)


def _add_router(graph: Graph, read: str) -> None:
    prefix = graph.prefix
    router, biased = part(graph.weight("Wrouter"), "ex"), "router" in graph.model.biased
    raw = part(prefix + ("R0" if biased else "R"), "bnx")
    graph.einsum("router", (part(read, "bne"), router), raw)
    if biased:
        add_bias(graph, "router", raw.tensor, part(prefix + "R", "bnx"), ("x",))
    gates = part(prefix + "G", "bnx")
    graph.vector("router.softmax", "softmax", (part(prefix + "R", "bnx"),), gates, axis="x")


def _combine(graph: Graph, made: str) -> None:
    prefix, parts, chosen = graph.prefix, [], graph.model.chosen
    rank, rows = graph.tokens.routed
    for k in range(chosen):
        gate, weighed = part(f"{prefix}g{k}", "bn"), f"{prefix}E{k}"
        gates = part(prefix + "G", "bnx")
        graph.vector(f"gate{k}", "largest", (gates,), gate, scale=float(k + 1))
        start = None if chosen == 1 else {rank: k * rows}
        inputs = (part(prefix + "E", "bne", start), gate)
        target = part(weighed if chosen > 1 else made, "bne")
        parts.append(graph.vector(f"weigh{k}", "product", inputs, target))
    for k in range(1, chosen):
        total = made if k == chosen - 1 else f"{prefix}E0to{k}"
        inputs = (part(parts[0], "bne"), part(parts[k], "bne"))
        parts[0] = graph.vector(f"sum{k}", "residual", inputs, part(total, "bne"))
