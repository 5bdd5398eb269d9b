"""Figures as text: three significant digits and a unit."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from simaccel.numbers import scaled_text, significant_text, size_text
from simaccel.units import cause_text

if TYPE_CHECKING:
    from simaccel.study.figure_table import Unit

_SECONDS = ("ns", "us", "ms", "s")
_RATES = ("B/s", "KB/s", "MB/s", "GB/s", "TB/s")
_JOULES = ("pJ", "nJ", "uJ", "mJ", "J", "kJ")
_JOULE_SECONDS = tuple(f"{unit}s" for unit in ("aJ", "fJ", *_JOULES))
_WATTS = ("nW", "uW", "mW", "W", "kW")
_TWO_DIGITS = 9.95
_FULL, _BEYOND = 10**6, 10**18
_SMALLEST_ERROR = 5e-5
"""Errors below this round to 0.00%."""
_ROUNDS = 8
"""Most rounds of making equal short names distinct."""
_HEAD = 4
"""Letters that remain of a common beginning of names."""


def seconds_text(seconds: float) -> str:
    """Return a time as text.

    >>> seconds_text(0.00123), seconds_text(75), seconds_text(7200), seconds_text(0)
    ('1.23 ms', '75.0 s', '2.00 h', '0 s')
    """
    minute, hour = 60, 3600
    if seconds >= hour:
        return f"{significant_text(seconds / hour)} h"
    if seconds > 2 * minute:
        return f"{significant_text(seconds / minute)} min"
    return scaled_text(seconds * 1e9, 1000, _SECONDS) if seconds else "0 s"


def bytes_text(n_bytes: float | None) -> str:
    """Return a size in bytes as text; None is unlimited.

    >>> bytes_text(47815066), bytes_text(None)
    ('45.6 MiB', 'unlimited')
    """
    return "unlimited" if n_bytes is None else size_text(n_bytes)


def rate_text(bytes_per_second: int | None) -> str:
    """Return a bandwidth as text; K, M, G are powers of 1000.

    >>> rate_text(122_880_000_000), rate_text(None)
    ('123 GB/s', 'unlimited')
    """
    if bytes_per_second is None:
        return "unlimited"
    return scaled_text(bytes_per_second, 1000, _RATES)


def energy_text(picojoules: float) -> str:
    """Return an energy as text.

    >>> energy_text(12.3e9), energy_text(0.25)
    ('12.3 mJ', '0.250 pJ')
    """
    return scaled_text(picojoules, 1000, _JOULES)


def fine_share_text(part: float) -> str:
    """Return a share in percent with two decimals.

    >>> fine_share_text(0.0041), fine_share_text(0.00001)
    ('0.41%', '<0.01%')
    """
    return f"{100 * part:.2f}%" if part >= _SMALLEST_ERROR else "<0.01%"


def short_share_text(part: float) -> str:
    """Return a share in percent with two significant digits.

    >>> short_share_text(0.4567), short_share_text(0.0456), short_share_text(0.999)
    ('46%', '4.6%', '100%')
    """
    percent = 100 * part
    return f"{percent:.0f}%" if percent >= _TWO_DIGITS else f"{percent:.1f}%"


def count_text(count: int, what: str) -> str:
    """Return a number of things as text.

    >>> count_text(1, "design"), count_text(1200, "design")
    ('1 design', '1,200 designs')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def short_name(name: str, width: int = 28) -> str:
    """Return a name of at most ``width`` characters; of a longer one the middle is cut out.

    >>> short_name("FF1"), short_name("BatchNormalization_conv2d_17.scaled", 20)
    ('FF1', 'BatchNormal…7.scaled')
    """
    if len(name) <= width:
        return name
    tail = (width - 1) * 4 // 9
    return f"{name[: width - 1 - tail]}…{name[len(name) - tail :]}"


def short_names(names: Sequence[str], width: int = 28) -> list[str]:
    """Return names of at most ``width`` characters, distinct if the names are.

    If they would be equal, their common beginning is shortened.

    >>> short_names(["/encoder/0/reduced/conv", "/encoder/1/reduced/conv", "/decoder/conv"], 16)
    ['/enc…0/re…d/conv', '/enc…1/re…d/conv', '/decoder/conv']
    """
    shown = {name: short_name(name, width) for name in names}
    for _ in range(_ROUNDS):
        alike: dict[str, list[str]] = {}
        for name, text in shown.items():
            alike.setdefault(text, []).append(name)
        for group in (group for group in alike.values() if len(group) > 1):
            shown |= _tell_apart(group, width)
    return [shown[name] for name in names]


def _tell_apart(names: Sequence[str], width: int) -> dict[str, str]:
    """Shorten what names have in common at the front, to where the first differing word begins."""
    first, last = min(names), max(names)
    pairs = enumerate(zip(first, last, strict=False))
    end = next((at for at, (one, other) in pairs if one != other), len(first))
    word = max((match.end() for match in re.finditer(r"[^A-Za-z0-9]", first[:end])), default=0)
    for start in (word, end):
        cut = {name: short_name(f"{name[:_HEAD]}…{name[start:]}", width) for name in names}
        if len(set(cut.values())) > 1:
            return cut
    return {}


def error_text(error: float) -> str:
    """Return a relative error in percent, with its sign.

    >>> error_text(-0.001234), error_text(0.2), error_text(-1e-7), error_text(0.0)
    ('-0.12%', '+20.00%', '<0.01%', '0%')
    """
    if error and abs(error) < _SMALLEST_ERROR:
        return "<0.01%"
    return f"{100 * error:+.2f}%" if error else "0%"


def signed_text(number: float) -> str:
    """Return a difference of counts with its sign.

    >>> signed_text(1234), signed_text(-5.2), signed_text(0)
    ('+1,234', '-5', '0')
    """
    return f"{round(number):+,}" if number else "0"


def large_count(number: float) -> str:
    """Return a count: in full below a million, else with three digits, of very many as a power.

    >>> large_count(666_419), large_count(4_089_184_256), large_count(10**30)
    ('666,419', '4.09 G', '1.00e+30')
    """
    if number >= _BEYOND:
        return f"{number:.2e}"
    return f"{number:,.0f}" if number < _FULL else scaled_text(number / _FULL, 1000, "MGTP")


UNKNOWN: Final = "unknown"
"""The text of an unknown figure."""
_TEXTS: Final[Mapping[Unit, Callable[[Any], str]]] = {
    **dict.fromkeys(("count", "cycles"), lambda n: f"{round(n):,}"),
    "s": seconds_text,
    "share": "{:.1%}".format,
    "B": bytes_text,
    "pJ": energy_text,
    "Js": lambda joule_seconds: scaled_text(joule_seconds * 1e18, 1000, _JOULE_SECONDS),
    "mW": lambda milliwatts: scaled_text(milliwatts * 1e6, 1000, _WATTS),
    "mm2": lambda mm2: f"{significant_text(mm2)} mm2",
    "1/s": lambda rate: f"{rate:,.0f}" if rate >= _WHOLE_RATE else f"{rate:.3g}",
}
_PRICED: Final = ("pJ", "Js", "mW")
"""Units of figures that are unknown if they are 0, as it means that nothing has a price."""
_WHOLE_RATE: Final = 100


def figure_text(value: float | None, unit: Unit) -> str:
    """Return a figure in its unit as text.

    >>> figure_text(2e9, "pJ"), figure_text(1536, "B"), figure_text(None, "B")
    ('2.00 mJ', '1.50 KiB', 'unknown')
    >>> figure_text(2.42e-15, "Js"), figure_text(1234.5, "mW"), figure_text(float("nan"), "pJ")
    ('2.42 fJs', '1.23 W', 'unknown')
    >>> figure_text(16.6999, "mm2"), figure_text(1034.2, "1/s"), figure_text(7.123, "1/s")
    ('16.7 mm2', '1,034', '7.12')
    """
    if value is None or (unit in _PRICED and not value > 0):
        return UNKNOWN
    return _TEXTS[unit](value)


def heading_text(text: str) -> str:
    r"""Return a heading of several words in two lines, as narrow as they can be.

    >>> heading_text("DRAM bandwidth"), heading_text("start of an operator"), heading_text("busy")
    ('DRAM\nbandwidth', 'start of\nan operator', 'busy')
    """
    spaces = [at for at, letter in enumerate(text) if letter == " "]
    middle = min(spaces, key=lambda at: max(at, len(text) - at - 1), default=len(text))
    return "\n".join(filter(None, (text[:middle], text[middle + 1 :])))


def terms_text(cycles: Mapping[str, int]) -> str:
    """Return cycles by term as a sum, the largest term first.

    >>> terms_text({"fill": 9, "array": 64, "dram_latency": 3})
    'array 64 + fill 9 + DRAM latency 3'
    """
    largest = sorted(cycles.items(), key=lambda one: (-one[1], one[0]))
    return " + ".join(f"{cause_text(name)} {n:,}" for name, n in largest)
