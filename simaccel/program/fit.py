"""Programs that need more of a memory than there is are refused before the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simaccel.program.program import BUFFER, DoesNotFitError, Program, reserved


def require_fit(program: Program, capacities: Mapping[tuple[str, ...], int | None]) -> None:
    """Refuse a program that needs more than a memory has.

    ``capacities``: bytes by the places that share a memory; None is unlimited.

    Raises:
        DoesNotFitError: names the operator and lists its tiles with their bytes.

    """
    for places, capacity in capacities.items():
        uses = [reserved(program, place) for place in places] if capacity is not None else []
        for operator in uses[0] if uses else ():
            held = {name: ring for use in uses for name, ring in use[operator].items()}
            total = sum(n_bytes * slots for n_bytes, slots in held.values())
            if capacity is not None and total > capacity:
                tiles = ", ".join(f"{name} {s} x {b} B" for name, (b, s) in held.items())
                raise DoesNotFitError(
                    f"{operator}: tiles need {total} B, the {_memory(places)} has {capacity} B, "
                    f"{total - capacity} B too many: {tiles}"
                )


def require_staged(program: Program, staging: Mapping[str, int | None]) -> None:
    """Refuse a program whose tiles of a memory need more of the buffer than it may take.

    ``staging``: bytes by the class of the memory's tensors; None is unlimited.

    Raises:
        DoesNotFitError: names the operator and lists its tiles of that memory with their bytes.

    """
    for kind, capacity in staging.items():
        uses = reserved(program, kind=kind) if capacity is not None else {}
        for operator, held in uses.items():
            total = sum(n_bytes * slots for n_bytes, slots in held.values())
            if capacity is not None and total > capacity:
                tiles = ", ".join(f"{name} {s} x {b} B" for name, (b, s) in held.items())
                raise DoesNotFitError(
                    f"{operator}: tiles need {total} B, memories.{kind}.staging_bytes is "
                    f"{capacity} B, {total - capacity} B too many: {tiles}"
                )


def _memory(places: Sequence[str]) -> str:
    if tuple(places) == (BUFFER,):
        return BUFFER
    return f"memory of a PE ({', '.join(places)})"
