"""Quantities with units as in ``hwconfigs/*.yaml``, and rates in integer arithmetic."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import BeforeValidator

from simaccel.errors import digits_of, with_digits
from simaccel.lazy import np

if TYPE_CHECKING:
    import numpy.typing as npt

Amount = TypeVar("Amount", int, "npt.NDArray[np.int64]")
"""A number of bytes or cycles, or an array of them, one per candidate mapping."""

_DECIMALS: Final = 10**4
_UNITS: dict[str, int] = {
    "B": 1,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "B/s": 1,
    "KB/s": 10**3,
    "MB/s": 10**6,
    "GB/s": 10**9,
    "TB/s": 10**12,
    "Hz": 1,
    "kHz": 10**3,
    "MHz": 10**6,
    "GHz": 10**9,
}
UNIT_OF: Final = {"_bytes_per_second": "B/s", "_bytes": "B", "_hz": "Hz"}
"""Units of fields by the end of their names."""
_USUAL = {"B": "MiB", "B/s": "GB/s", "Hz": "GHz"}
"""Units that are suggested for a fraction without a unit."""
_SMALLEST_BARE: Final = {"Hz": 10**6}
"""The least number that is accepted without a unit: 720 is hardly a clock of 720 Hz."""
LARGEST = 2**50
"""The most bytes, bytes per second or Hz."""
_LARGEST_INT64 = 2**63 - 1
_MOST_PICOJOULES = 10**9
_MOST_SQUARE_MICROMETRES = 10**12
_LOOSE = re.compile(r"\s*([0-9.,_]{1,30}(?:[eE]\+?[0-9]{1,2})?)\s*([KMGTkmgt]?)[A-Za-z/]*\s*")
_QUANTITY = re.compile(r"\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z/]*)\s*")


def _units(kind: str) -> list[str]:
    return [u for u in _UNITS if u.endswith(kind) and ("/" in u) == ("/" in kind)]


def _text(value: object) -> str:
    """Return a number or text as text; empty for anything else, and for numbers too long."""
    if isinstance(value, int) and (isinstance(value, bool) or not 0 < value <= LARGEST):
        return ""
    return str(value) if isinstance(value, int | float | str) else ""


def parse_quantity(value: object, kind: str) -> int:
    """Parse a positive integer amount such as ``512 KiB``, ``50 GB/s`` or ``720 MHz``.

    ``kind``: the base unit, ``B``, ``B/s`` or ``Hz``, which a bare number has. Prefixes of bytes
    are binary (KiB = 1024 B), those of rates decimal (GB/s = 10^9 B/s).

    >>> parse_quantity("512 KiB", "B"), parse_quantity("0.72 GHz", "Hz"), parse_quantity(7, "B")
    (524288, 720000000, 7)

    Raises:
        ValueError: not a number with a unit of this kind, not positive, or not whole.
    """
    allowed = _units(kind)
    match = _QUANTITY.fullmatch(_text(value))
    unit = match[2] or kind if match else ""
    amount = Fraction(match[1]) * _UNITS[unit] if match and unit in allowed else Fraction(0)
    least = 0 if match and match[2] else _SMALLEST_BARE.get(kind, 0)
    if 0 < amount < least:
        bare = f"a number of {kind} from {least} on"
        raise ValueError(f"{bare}, or one with its unit, such as {_text(value).strip()} MHz")
    if amount.denominator != 1 or not 0 < amount <= LARGEST:
        amounts = f"a positive amount with a unit ({', '.join(allowed)})"
        such = _right_form(_text(value), kind)
        raise ValueError(f"{amounts}, whole and at most 2^50 {kind}{such and f', such as {such}'}")
    return int(amount)


def _right_form(text: str, kind: str) -> str:
    """Return the accepted form of an amount that is written otherwise; empty if it is unclear.

    >>> _right_form("64KB", "B"), _right_form("50 GBps", "B/s"), _right_form("720mhz", "Hz")
    ('64 KiB', '50 GB/s', '720 MHz')
    >>> _right_form("1e6", "B"), _right_form("64..128", "B")
    ('1000000 B', '')
    >>> _right_form("1.6", "B/s"), _right_form("1.5", "B")  # no whole number of the kind's own unit
    ('1.6 GB/s', '1.5 MiB')
    """
    match = _LOOSE.fullmatch(text)
    number = (digits_of(match[1]) or match[1]) if match else ""
    if match is None or not _QUANTITY.fullmatch(number):
        return ""
    letter = match[2].upper()
    unit = next((u for u in _units(kind) if letter and u.upper().startswith(letter)), "")
    if letter and not unit:
        return ""
    if not letter and Fraction(number).denominator > 1:
        unit = _USUAL[kind]
    return f"{number} {unit or kind}" if Fraction(number) > 0 else ""


def format_quantity(amount: int | None, kind: str) -> str:
    """Return an amount as text, exactly, in the largest unit that it is a whole number of.

    Rates and clocks may have up to four decimals.

    >>> format_quantity(524288, "B"), format_quantity(None, "B/s"), format_quantity(1000, "B")
    ('512 KiB', 'unlimited', '1000 B')
    >>> format_quantity(12_800_000_000, "B/s")
    '12.8 GB/s'
    >>> format_quantity(48_537_600_000, "B/s"), format_quantity(1_050_000_000, "Hz")
    ('48.5376 GB/s', '1.05 GHz')
    """
    if amount is None:
        return "unlimited"
    parts = 1 if kind == "B" else _DECIMALS
    exact = [u for u in _units(kind) if parts * amount % _UNITS[u] == 0]
    unit = max((u for u in exact if amount >= _UNITS[u]), key=_UNITS.__getitem__)
    return f"{Decimal(amount) / _UNITS[unit]:f} {unit}"


def _quantity(kind: str, *, unlimited: bool) -> BeforeValidator:
    def read(value: object) -> int | None:
        if unlimited and (value is None or value == "unlimited"):
            return None
        try:
            return parse_quantity(value, kind)
        except ValueError as error:
            raise ValueError(f"{error}{', or unlimited' if unlimited else ''}") from None

    return BeforeValidator(read)


def _integer(low: int, high: int) -> BeforeValidator:
    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise ValueError(with_digits(value, f"an integer >= {low} and <= {high}"))

    return BeforeValidator(read)


def _number(unit: str, most: int) -> BeforeValidator:
    def read(value: object) -> float:
        # YAML 1.1 reads 1e-3 (no point) as text, so text that is a number is a number here
        try:
            number = float(value.encode("ascii")) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int | float):
            number = -1
        if not 0 <= number <= most:
            raise ValueError(f"a number of {unit} >= 0 and <= {most}")
        return float(number)

    return BeforeValidator(read)


Bytes = Annotated[int, _quantity("B", unlimited=False)]
BytesOrUnlimited = Annotated[int | None, _quantity("B", unlimited=True)]
BytesPerSecond = Annotated[int | None, _quantity("B/s", unlimited=True)]
Hertz = Annotated[int, _quantity("Hz", unlimited=False)]
MAX_COUNT: Final = 2**20
"""The most rows, columns, lanes, cores and other units of one kind."""
Count = Annotated[int, _integer(1, MAX_COUNT)]
Cycles = Annotated[int, _integer(0, 2**30)]
Picojoules = Annotated[float, _number("pJ", _MOST_PICOJOULES)]
SquareMicrometres = Annotated[float, _number("um2", _MOST_SQUARE_MICROMETRES)]


def larger(one: Amount, other: Amount | int) -> Amount:
    """Return the larger of two amounts, elementwise if they are arrays."""
    return one + (other - one) * (other > one)


def smaller(one: Amount, other: Amount | int) -> Amount:
    """Return the smaller of two amounts, elementwise if they are arrays."""
    return one - (one - other) * (one > other)


@dataclass(frozen=True)
class Rate:
    """Bandwidth as a ratio of integers: ``n_bytes`` every ``n_cycles`` (0 cycles: unlimited)."""

    n_bytes: int
    n_cycles: int

    def cycles(self, amount_bytes: Amount) -> Amount:
        """Return the cycles of service of a request, ``ceil(bytes / bytes_per_cycle)``.

        >>> Rate(625, 9).cycles(8192)
        118
        """
        if isinstance(amount_bytes, int):
            return -(-amount_bytes * self.n_cycles // self.n_bytes)
        if not amount_bytes.ndim:
            return np.int64(self.cycles(int(amount_bytes)))  # type: ignore[return-value]
        if int(amount_bytes.max(initial=1)) * self.n_cycles > _LARGEST_INT64:
            exact = -(-amount_bytes.astype(object) * self.n_cycles // self.n_bytes)
            return np.asarray(exact, dtype=np.int64)
        return -(-amount_bytes * self.n_cycles // self.n_bytes)

    def times(self, count: int) -> Rate:
        """Return the rate of ``count`` of these together.

        >>> Rate(625, 9).times(2)
        Rate(n_bytes=1250, n_cycles=9)
        """
        return Rate(self.n_bytes * count, self.n_cycles)

    def exact(self) -> Fraction | float:
        """Return the bytes per cycle as an exact ratio, infinite if unlimited."""
        return Fraction(self.n_bytes, self.n_cycles) if self.n_cycles else math.inf

    @property
    def unlimited(self) -> bool:
        """Whether requests take no cycles."""
        return self.n_cycles == 0


def rate(bytes_per_second: int | None, clock_hz: int, parts: int = 1) -> Rate:
    """Return the rate per clock cycle of one of ``parts`` equal shares of a bandwidth."""
    if bytes_per_second is None:
        return Rate(1, 0)
    common = math.gcd(bytes_per_second, clock_hz * parts)
    return Rate(bytes_per_second // common, clock_hz * parts // common)
