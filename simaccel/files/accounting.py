"""Accounts of all entries of a file, for every importer.

Each key, field, attribute, node and tensor of a file is *taken*, *harmless* (it changes no figure;
the importer lists the reason), or *not taken*. Entries that are not taken are named with their
share of the work. If that is more than `MOST_LEFT_OUT` of all MACs, or can't be counted, nothing
runs unless an option allows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from simaccel.errors import Fault, require_none, suggest

How = Literal["taken", "harmless", "not taken"]
HOWS: Final[tuple[How, ...]] = get_args(How)
MOST_LEFT_OUT: Final = 0.01
"""The share of all MACs above which a workload with something left out is refused."""
_SHOWN: Final = 0.001
_SUGGESTED: Final = 100
"""The most keys that get a suggestion, as each is compared with all known ones."""
MOST_LISTED: Final = 20
"""The most entries that are listed as not taken; further ones are counted."""


@dataclass(frozen=True)
class AccountEntry:
    """An entry of an imported file: its place (``name``), and whether it was taken.

    ``why``: what it became, why it is harmless, or why it is not taken. ``kind``: key, attribute,
    tensor, or the type of a node. ``macs``: multiply-accumulates; None: not taken, and unknown.
    ``elements``: output elements, if it has no MACs. ``remark``: a note on one that is taken.
    """

    name: str
    how: How
    why: str
    kind: str = "key"
    macs: int | None = 0
    elements: int = 0
    remark: str = ""

    def __str__(self) -> str:
        share = ", work that can't be counted" if self.macs is None else ""
        share = f", {self.macs:,} MACs" if self.macs else share
        return f"{self.how}: {self.name} ({self.kind}): {self.why}{share}"


@dataclass(frozen=True)
class FileAccount:
    """All entries of a file (``source``); ``allowed``: leaving out any of them is accepted."""

    source: str = ""
    entries: tuple[AccountEntry, ...] = ()
    allowed: bool = False

    def entries_of(self, how: How) -> tuple[AccountEntry, ...]:
        """Return the entries that are taken, harmless, or not taken."""
        return tuple(entry for entry in self.entries if entry.how == how)

    def totals(self) -> dict[How, tuple[int, int, int]]:
        """Return (entries, countable MACs, elements) of the entries of each kind."""
        return {how: _total(self.entries_of(how)) for how in HOWS}

    def share_left_out(self) -> float | None:
        """Return the share of all MACs that is not taken; None if not countable.

        >>> done = AccountEntry("a", "taken", "conv", "Conv", 300)
        >>> left = AccountEntry("b", "not taken", "no Det", "Det", 100)
        >>> FileAccount("f", (done, left)).share_left_out()
        0.25
        """
        left = self.entries_of("not taken")
        if any(entry.macs is None for entry in left):
            return None
        macs = _total(left)[1]
        return macs / max(1, macs + _total(self.entries_of("taken"))[1])

    def require_modelled(self, option: str = "--allow-unmodelled") -> None:
        """Refuse a file of which too much work is not taken, unless that is allowed.

        ``option``: the option that allows it.

        Raises:
            InputError: more than `MOST_LEFT_OUT` of all MACs, or uncountable work, is left out.
        """
        share = self.share_left_out() if self.entries else 0
        if self.allowed or (share is not None and share <= MOST_LEFT_OUT):
            return
        allowed = f"{option}, to leave it out: {_share_text(share)}"
        left = [entry for entry in self.entries_of("not taken") if entry.macs != 0]
        require_none(
            Fault(self.source, f"{entry.name} ({entry.kind})", entry.why, allowed)
            for entry in left[:MOST_LISTED]
        )

    def lines(self) -> list[str]:
        """Return a line with the share that is not taken, and one for each of the first entries.

        Before them stand the first remarks.
        """
        if not self.entries:
            return []
        remarks = [f"{entry.name}: {entry.remark}" for entry in self.entries if entry.remark]
        return [*remarks[:MOST_LISTED], *self._lines_left_out()]

    def _lines_left_out(self) -> list[str]:
        left = self.entries_of("not taken")
        if not left:
            return []
        count = f"{len(left)} of {len(self.entries)} entries are not taken"
        lines = [f"{self.source}: {count}: {_share_text(self.share_left_out())}"]
        lines += [f"  {one}" for one in left[:MOST_LISTED]]
        more = len(left) - MOST_LISTED
        return [*lines, f"  not taken: {more} more (--json lists all)"] if more > 0 else lines


def account_keys(
    keys: Iterable[object],
    taken: Collection[str],
    harmless: Mapping[str, str] | None = None,
    *,
    within: str = "",
    macs: int | None = None,
) -> Iterator[AccountEntry]:
    """Yield an entry for each key of a mapping; keys in neither list are not taken.

    ``harmless``: reasons by key. ``within``: the path of the mapping. ``macs``: the work that a key
    which is not taken changes; None if unknown.

    >>> for one in account_keys(["R", "Wstrid"], ["R", "Wstride"], within="instance", macs=0):
    ...     print(one)
    taken: instance.R (key): read
    not taken: instance.Wstrid (key): not read; did you mean 'Wstride'?
    """
    reasons, unknown = harmless or {}, 0
    for key in map(str, keys):
        name = f"{within}.{key}" if within else key
        if key in taken:
            yield AccountEntry(name, "taken", "read")
        elif key in reasons:
            yield AccountEntry(name, "harmless", reasons[key])
        else:
            unknown += 1
            near = (
                suggest(key, (*taken, *reasons)).partition(" (")[0] if unknown < _SUGGESTED else ""
            )
            why = f"not read; {near}" if near.startswith("did") else "not read"
            yield AccountEntry(name, "not taken", why, macs=macs)


def split_names(text: str) -> frozenset[str]:
    """Return the names in a text, between blanks and ends of lines."""
    return frozenset(text.split())


def _total(entries: Collection[AccountEntry]) -> tuple[int, int, int]:
    macs = sum(entry.macs or 0 for entry in entries)
    return len(entries), macs, sum(entry.elements for entry in entries)


def _share_text(share: float | None) -> str:
    if share is None:
        return "work that can't be counted"
    return f"{share:.1%} of all MACs" if share >= _SHOWN or not share else "below 0.1% of all MACs"
