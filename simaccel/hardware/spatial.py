"""The spatial array: PEs with private memories, among which ranks are divided."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import ClassVar, Literal

from simaccel.hardware.dataflow import ConstraintText
from simaccel.hardware.levels import ROLES, Role
from simaccel.hardware.precision import MultipliedAsSpec, NativeBits, cycles_per_mac
from simaccel.hardware.quantity import BytesOrUnlimited, Count, Picojoules
from simaccel.hardware.spec import Spec
from simaccel.numbers import Element

Fan = Literal["rows", "cols", "vectors", "lanes"]


class PeMemorySpec(Spec):
    """A memory in each PE."""

    capacity_bytes: BytesOrUnlimited
    read_pj_per_byte: Picojoules
    write_pj_per_byte: Picojoules


class PeMemories(Spec):
    """The memories of a PE: one for each role, or ``shared`` by the roles that have none."""

    input: PeMemorySpec | None = None
    weight: PeMemorySpec | None = None
    output: PeMemorySpec | None = None
    shared: PeMemorySpec | None = None

    def by_roles(self) -> dict[frozenset[Role], PeMemorySpec]:
        """Return the memories by the roles that they keep; a role without one bypasses the PE."""
        own: dict[Role, PeMemorySpec | None] = {
            "input": self.input,
            "weight": self.weight,
            "output": self.output,
        }
        found = {frozenset({role}): memory for role, memory in own.items() if memory is not None}
        others = frozenset(role for role in ROLES if own[role] is None)
        if self.shared is not None and others:
            found[others] = self.shared
        return found

    def prices(self) -> dict[str, float]:
        """Return the energy per byte in pJ by place and direction, such as ``pe.input_read``."""
        found = {}
        for roles, memory in self.by_roles().items():
            for role in roles:
                found[f"pe.{role}_read"] = memory.read_pj_per_byte
                found[f"pe.{role}_write"] = memory.write_pj_per_byte
        return found


class SpatialArraySpec(Spec):
    """``rows`` x ``cols`` PEs with ``vectors`` vector units of ``lanes`` MACs each.

    ``reduces``: fan-outs that add partial sums on the way up. ``bypass_buffer``: roles that go
    between DRAM and PEs directly; if all do, there is no buffer. ``dataflow``: constraints on
    mappings, such as ``cols=Q,M``; ranks that an operator lacks are ignored. ``native_bits``:
    operand width of a multiplier; wider operands take several cycles per MAC. ``multiplied_as``:
    number formats that are multiplied as others.
    """

    OMITTED: ClassVar = ("multiplied_as",)

    count: ClassVar[int] = 1
    """Always one array."""

    kind: Literal["spatial"]
    rows: Count
    cols: Count
    vectors: Count = 1
    lanes: Count = 1
    memories: PeMemories
    reduces: tuple[Fan, ...] = ("rows", "cols", "vectors", "lanes")
    bypass_buffer: tuple[Role, ...] = ()
    dataflow: tuple[ConstraintText, ...] = ()
    native_bits: NativeBits | None = None
    multiplied_as: MultipliedAsSpec = MultipliedAsSpec()

    def cycles_per_mac(self, elements: Iterable[Element]) -> int:
        """Return the cycles of a MAC with operands of these elements."""
        return cycles_per_mac(self.native_bits, map(self.multiplied_as.bits, elements))

    def pace(self, elements: Iterable[Element]) -> Fraction:
        """Return the cycles of a step of the PEs with operands of these elements."""
        return Fraction(self.cycles_per_mac(elements))

    @property
    def pes(self) -> int:
        """Peak MACs per cycle, including all vector units and lanes of the PEs."""
        return self.rows * self.cols * self.vectors * self.lanes

    def pass_cycles(self, steps: int) -> int:
        """Return ``steps``, the cycles of a pass: PEs with memories of their own have no fill."""
        return steps
