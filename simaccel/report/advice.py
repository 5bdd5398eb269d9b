"""Advice: the changes that would help most, by the runs with something freed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simaccel.diagnosis.speedups import WORTH_A_CHANGE
from simaccel.units import FREED

_NEARLY = 0.95
_SLOTS = ("slots",)


def freed_text(case: Sequence[str]) -> str:
    """Name a case of freed resources.

    >>> freed_text(("array", "noc")), freed_text(("sfu",))
    ('array and NoC', 'SFU')
    """
    return " and ".join(FREED[name][0] for name in case).replace("and DRAM ", "and ")


def advice(gains: Mapping[tuple[str, ...], float]) -> Iterator[str]:
    """Return what would help most, by the runs with something freed."""
    if not gains:
        return
    most = max(gains.values())
    if most < WORTH_A_CHANGE:
        yield "No change of a resource gains 2%: only another mapping can."
        return
    # the least change that gains nearly as much as any, slots first: they cost only buffer
    near = [case for case, gain in gains.items() if gain - 1 >= _NEARLY * (most - 1)]
    case = min(near, key=lambda changed: (len(changed), changed != _SLOTS, -gains[changed]))
    text = f"Largest gain: {_change(case)}, up to {gains[case]:.2f} x."
    single = {
        changed: gain for changed, gain in gains.items() if len(changed) == 1 and changed != case
    }
    ranked = sorted(single, key=lambda changed: -single[changed])
    rest = [
        f"{_change(changed)} {single[changed]:.2f} x"
        for changed in ranked
        if single[changed] >= WORTH_A_CHANGE
    ]
    label = "Next" if len(case) == 1 else "Alone"
    yield f"{text} {label}: {', '.join(rest[:2])}." if rest else text


def _change(case: Sequence[str]) -> str:
    if tuple(case) == _SLOTS:
        return "more slots for the tiles (deeper prefetch)"
    if tuple(case) == ("dram_bandwidth",):
        return "DRAM bandwidth (or a mapping that moves fewer bytes)"
    return freed_text(case)
