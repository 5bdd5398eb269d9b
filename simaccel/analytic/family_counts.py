"""The counts of a family: bytes, work, and the memory that its tiles take.

Bytes by (level and direction, tensor), MACs and element passes equal the machine's exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simaccel.analytic.family import ZERO, Ints, ints, maximum
from simaccel.mapping.tree import BUFFER
from simaccel.workload.names import sums_name

Level = tuple[str, str]
"""(level and direction, tensor), e.g. ("dram_read", "K")."""
ACCUMULATOR = "accumulator"
"""The place of a systolic array's partial sums, one strip of columns at a time."""


@dataclass
class FamilyCounts:
    """The counts of a family; arrays have an entry per candidate.

    ``native_macs``: MACs in units of the multipliers' native width. ``elements``: elements x passes
    of the SFU. ``busy``: work of each unit and channel in cycles. ``chains``: cycles of each
    operator's blocks one after the other, with operands in the buffer; of an online operator
    including the rescaling of sums. ``moved``: bytes. ``tiles``: (bytes of a slot, slots) by place
    and name; ``kinds``: classes of their tensors.
    """

    macs: Ints = ZERO
    native_macs: Ints = ZERO
    elements: Ints = ZERO
    busy: dict[str, Ints] = field(default_factory=dict)
    chains: dict[str, Ints] = field(default_factory=dict)
    moved: dict[Level, Ints] = field(default_factory=dict)
    tiles: dict[Level, tuple[Ints, Ints]] = field(default_factory=dict)
    kinds: dict[Level, str] = field(default_factory=dict)

    def move(self, level: str, tensor: str, n_bytes: Ints) -> None:
        """Add bytes of a tensor at a level and direction."""
        known = self.moved.get((level, tensor))
        self.moved[level, tensor] = ints(n_bytes) if known is None else known + n_bytes

    def work(self, name: str, cycles: Ints) -> None:
        """Add cycles of a unit or channel."""
        self.busy[name] = self.busy.get(name, ZERO) + cycles

    def add_serial_cycles(self, operator: str, cycles: Ints) -> None:
        """Add cycles of an operator's blocks, one after the other."""
        self.chains[operator] = self.chains.get(operator, ZERO) + cycles

    def hold(self, place: str, name: str, n_bytes: Ints, slots: Ints, kind: str = "") -> None:
        """Reserve slots of a tile; tiles of one name share them."""
        self.kinds[place, name] = kind
        known = self.tiles.get((place, name), (ZERO, ZERO))
        self.tiles[place, name] = (maximum(known[0], n_bytes), maximum(known[1], slots))

    def largest_tile(self, name: str) -> tuple[Ints, Ints]:
        """Return the bytes of a tensor's largest tile in the buffer, of its sums too, and slots."""
        known = (self.tiles.get((BUFFER, one), (ZERO, ZERO)) for one in (name, sums_name(name)))
        n_bytes, slots = (ints(maximum(*both)) for both in zip(*known, strict=True))
        return n_bytes, slots

    def room(self, *places: str) -> Ints:
        """Return the bytes of all slots in these places."""
        found = (n * s for (place, _), (n, s) in self.tiles.items() if place in places)
        return ints(sum(found, start=ZERO))

    def staged_bytes(self, kind: str) -> Ints:
        """Return the bytes of all slots in the buffer for tensors of a class."""
        keys = [at for at, one in self.kinds.items() if (at[0], one) == (BUFFER, kind)]
        found = (n_bytes * slots for n_bytes, slots in map(self.tiles.__getitem__, keys))
        return ints(sum(found, start=ZERO))

    def by_level(self) -> dict[str, Ints]:
        """Return the bytes of all tensors by level and direction."""
        found: dict[str, Ints] = {}
        for (level, _), n_bytes in self.moved.items():
            found[level] = found.get(level, ZERO) + n_bytes
        return found

    def total(self, level: str) -> Ints:
        """Return the bytes of all tensors at a level and direction."""
        return self.by_level().get(level, ZERO)
