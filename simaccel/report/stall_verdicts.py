"""Sentences on the stalls of a trace: the run, kinds of operators, the costliest operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from simaccel.diagnosis.stalls import TOTAL, Diagnosis, OperatorDiagnosis
from simaccel.diagnosis.verdict import StallAnalysis, VerdictFigures, is_bound, worst_causes
from simaccel.hardware.cores import without_core
from simaccel.report.units import bytes_text, count_text, cycles_text, short_share_text
from simaccel.report.verdict import engine_text, sentences
from simaccel.units import ARRAY, LIMITS, SFU

_WORTH_A_LEAD: Final = 0.2
"""Smallest share of the cycles with which an operator is described before the whole run."""
_WORTH_A_VERDICT: Final = 0.04
_WORTH_A_SUM: Final = 0.1
_WORTH_A_PLACE: Final = 0.005
_MOST_VERDICTS: Final = 3
_MOST_NAMES: Final = 5


def verdicts(analysis: StallAnalysis, part: OperatorDiagnosis) -> Iterator[str]:
    """Yield the diagnosis of one operator, or of the operators that dominate the run.

    For a run, the operator with most cycles comes first, with similar ones; if it is a small part,
    the diagnosis of the whole run comes before it.
    """
    diagnosis = analysis.diagnosis
    if len(diagnosis.operators) == 1:
        part = diagnosis.operators[0]
    if part.name != TOTAL or diagnosis.costliest is None:
        yield " ".join(sentences(analysis.scene(part)))
        return
    alike, whole = _group_alike(diagnosis), " ".join(sentences(analysis.scene(diagnosis.total)))
    lead = _lead(analysis, diagnosis.costliest, alike)
    leads = diagnosis.costliest.cycles >= _WORTH_A_LEAD * diagnosis.total.cycles
    yield lead if leads else whole
    yield from by_kind(analysis)
    yield whole if leads else lead
    yield from _bound_together(diagnosis)
    for first, *others in alike[:_MOST_VERDICTS]:
        if (
            first is not diagnosis.costliest
            and first.cycles >= _WORTH_A_VERDICT * diagnosis.total.cycles
        ):
            yield " ".join([*sentences(analysis.scene(first)), *_names_text(others)])


def by_kind(analysis: StallAnalysis) -> Iterator[str]:
    """Yield a summary by kind of operator and limit, for kinds with several operators.

    For DRAM-bound vector operators, it includes the cycles left if their tensors stayed on chip.
    """
    groups: dict[tuple[str, str], list[OperatorDiagnosis]] = {}
    for part in analysis.diagnosis.operators:
        if part.name in analysis.kinds:
            groups.setdefault((analysis.kinds[part.name], _limit_of(part)), []).append(part)
    total = analysis.diagnosis.total.cycles
    for (kind, limit), parts in sorted(groups.items(), key=lambda item: -_cycles(item[1])):
        share = _cycles(parts) / total
        if len(parts) < 2 or share < _WORTH_A_SUM:  # noqa: PLR2004 - one was reported already
            continue
        text = f"{short_share_text(share)} of the cycles: {kinds_text(len(parts), kind)}, {limit}"
        if "DRAM" in limit and all(_is_vector(part) for part in parts):
            work = sum(part.engines[part.unit_name(SFU)].get("busy", 0) for part in parts)
            text += f"; with their tensors on chip {short_share_text(work / total)} is left"
        yield f"{text}."


def _is_vector(part: OperatorDiagnosis) -> bool:
    """Say whether it computes on the SFU alone."""
    on_array = part.engines.get(part.unit_name(ARRAY), {}).get("busy", 0)
    return without_core(part.compute) == SFU and not on_array


def _cycles(parts: Sequence[OperatorDiagnosis]) -> int:
    return sum(part.cycles for part in parts)


def _limit_of(part: OperatorDiagnosis) -> str:
    """Say what bounds an operator, or what it waits for most."""
    worst = worst_causes(VerdictFigures(part))
    if is_bound(part) or not worst:
        return f"bound by {engine_text(part.compute)}"
    return f"waiting for {LIMITS[worst[0]]}"


def _lead(
    analysis: StallAnalysis, part: OperatorDiagnosis, alike: Sequence[Sequence[OperatorDiagnosis]]
) -> str:
    """Tell of the operator that costs most, and of a dataflow that moves fewer bytes for it."""
    share = short_share_text(part.cycles / analysis.diagnosis.total.cycles)
    diagnosis = sentences(analysis.scene(part))
    others = next((group[1:] for group in alike if group[0] is part), ())
    shown = diagnosis[:1] if is_bound(part) else [*diagnosis, *_names_text(others)]
    return " ".join(
        [f"{part.name} costs most, {share} of the cycles.", *shown, *_describe_proposal(analysis)]
    )


def _describe_proposal(analysis: StallAnalysis) -> Iterator[str]:
    """Say what the proposed dataflow would move, and in how many cycles."""
    one = analysis.proposal
    if one is not None:
        yield (
            f"Dataflow {one.dataflow} moves {bytes_text(one.proposed_bytes)} with DRAM for "
            f"{', '.join(one.operators)} instead of {bytes_text(one.moved_bytes)}, alone "
            f"in {cycles_text(one.proposed_cycles)} instead of {cycles_text(one.cycles)} "
            f"cycles ({one.cycles / one.proposed_cycles:.2f} x)."
        )


def _names_text(others: Sequence[OperatorDiagnosis]) -> list[str]:
    return [f"The same holds for {_list_names(others)}."] if others else []


def _list_names(parts: Sequence[OperatorDiagnosis]) -> str:
    """Name the first parts, and count the others."""
    rest = len(parts) - _MOST_NAMES
    first = ", ".join(part.name for part in parts[: _MOST_NAMES if rest > 1 else None])
    return f"{first} and {count_text(rest, 'other')}" if rest > 1 else first


def _group_alike(found: Diagnosis) -> list[list[OperatorDiagnosis]]:
    """Group operators that wait for the same causes, the longest first."""
    groups: dict[tuple[str, ...], list[OperatorDiagnosis]] = {}
    for one in sorted(found.operators, key=lambda p: -p.cycles):
        if not is_bound(one):
            causes = worst_causes(VerdictFigures(one))
            groups.setdefault((one.compute, *sorted(causes)), []).append(one)
    return list(groups.values())


def _bound_together(found: Diagnosis) -> Iterator[str]:
    """Say of the operators that are bound by their compute engine that they are."""
    for engine in (ARRAY, SFU):
        bound = [p for p in found.operators if is_bound(p) and p.compute == p.unit_name(engine)]
        share = sum(p.cycles for p in bound) / found.total.cycles
        if share >= _WORTH_A_PLACE:
            names = _list_names(sorted(bound, key=lambda p: -p.cycles))
            part = f"{short_share_text(share)} of the cycles"
            yield f"Bound by {engine_text(engine)}: {names} ({part})."


def kinds_text(count: int, kind: str) -> str:
    """Return the number of operators or groups of a kind in words.

    >>> kinds_text(3, "fused GEMM"), kinds_text(2, "elementwise"), kinds_text(1, "row-wise")
    ('3 fused GEMMs', '2 elementwise passes', '1 row-wise pass')
    """
    if kind.endswith("wise"):
        return f"{count:,} {kind} pass{'es' * (count != 1)}"
    return count_text(count, kind)
