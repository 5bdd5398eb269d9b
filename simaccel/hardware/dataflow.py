"""Constraints of mappings at a level, as architects write them.

A dataflow such as row-stationary is a set of constraints: the ranks that may be split at a level,
their numbers of pieces, the order of its loops, and the operands that it keeps. Ranks are named as
in the einsum, in upper or lower case; ranks that an operator lacks are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from simaccel.errors import Fault, require_none
from simaccel.hardware.levels import ROLES, Role

Pieces = Annotated[int, Field(strict=True, ge=1)]
_FORM = re.compile(r"(?P<level>\w+)(\.(?P<what>\w+))?\s*(?P<sign><=|=)\s*(?P<value>.*)")
_EXAMPLES = (
    "LEVEL=RANK,..., LEVEL.RANK=N|all, LEVEL.RANK<=N, LEVEL.order=RANK,... or LEVEL.keep=ROLE,..."
)


class LevelConstraint(BaseModel):
    """The constraints at one level; fields that aren't given are free."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ranks: tuple[str, ...] | None = None
    """The ranks that may be split here; all others stay in one piece."""
    factors: Mapping[str, Pieces | Literal["all"]] = {}
    """Exact pieces of a rank; ``all``: as many as the tiles of the inner levels leave."""
    most: Mapping[str, Pieces] = {}
    """The most pieces of a rank."""
    order: tuple[str, ...] = ()
    """Ranks whose loops have this order, outermost first; others may stand anywhere."""
    keep: tuple[Role, ...] | None = None
    """The operands that are kept here; all others bypass the level."""

    def parts(self) -> Iterator[tuple[str, LevelConstraint]]:
        """Yield each single constraint with its text after the level's name."""
        if self.ranks is not None:
            yield f"={','.join(self.ranks)}", LevelConstraint(ranks=self.ranks)
        for rank, pieces in self.factors.items():
            yield f".{rank}={pieces}", LevelConstraint(factors={rank: pieces})
        for rank, most in self.most.items():
            yield f".{rank}<={most}", LevelConstraint(most={rank: most})
        if self.order:
            yield f".order={','.join(self.order)}", LevelConstraint(order=self.order)
        if self.keep is not None:
            yield f".keep={','.join(self.keep)}", LevelConstraint(keep=self.keep)

    def override_with(self, over: LevelConstraint) -> LevelConstraint:
        """Return this constraint with the fields of another one, which have priority."""
        said = {name: getattr(over, name) for name in over.model_fields_set}
        below = {name: getattr(self, name) for name in self.model_fields_set}
        for name in {"factors", "most"} & said.keys() & below.keys():
            said[name] = {**below[name], **said[name]}
        return LevelConstraint.model_validate({**below, **said})


Constraints = Mapping[str, LevelConstraint]
"""Constraints by the name of their level."""


def merge_constraints(below: Constraints, over: Constraints) -> Constraints:
    """Return the constraints of both; the second has priority."""
    free = LevelConstraint()
    return {
        level: below.get(level, free).override_with(over.get(level, free))
        for level in {**below, **over}
    }


def single(constraints: Constraints) -> list[tuple[str, str, LevelConstraint]]:
    """Return all single constraints as (text, level, constraint)."""
    return [
        (f"{level}{text}", level, part)
        for level, constraint in constraints.items()
        for text, part in constraint.parts()
    ]


_OF_TREES: Final = (
    "of a dataflow dram.RANK=N, 'dram.RANK<=N', dram=RANK,..., dram.order=RANK,..., rows=RANK,... "
    "or cols=RANK,..."
)


_COMMAND: Final = "command line"


def parse_constraints(texts: Sequence[str]) -> Constraints:
    """Parse constraints such as ``cols=Q,M``, ``rows.S=5``, ``pe.C<=4``, ``buffer.keep=input``.

    ``cols=any`` lifts a dataflow's restriction of ranks, ``cols=none`` allows no rank.

    Raises:
        InputError: every text that is not a constraint.
    """
    constraints: Constraints = {}
    faults: list[Fault] = []
    for text in texts:
        parsed = _parse_constraint(text)
        if parsed is None:
            faults.append(Fault(_COMMAND, "--constrain", text, _EXAMPLES))
        elif (other := _contradicting_constraint(constraints, parsed)) is not None:
            faults.append(Fault(_COMMAND, "--constrain", text, f"{other}, as stands before it"))
        else:
            constraints = merge_constraints(constraints, parsed)
    require_none(faults)
    return constraints


def tree_constraints(texts: Sequence[str]) -> Constraints:
    """Parse constraints of the command line on the trees of a systolic array.

    Raises:
        InputError: every constraint that such trees can't have.
    """
    constraints = parse_constraints(texts)
    require_none(
        Fault("--constrain", level, text, _OF_TREES)
        for text, level, part in single(constraints)
        if not _is_of_trees(level, part)
    )
    return constraints


def _is_of_trees(level: str, part: LevelConstraint) -> bool:
    if level == "dram":
        return part.keep is None and "all" not in part.factors.values()
    return level in ("rows", "cols") and part.ranks is not None


def _constraint(text: str) -> str:
    if _parse_constraint(text) is None:
        raise ValueError(_EXAMPLES)
    return text


ConstraintText = Annotated[str, Field(strict=True), AfterValidator(_constraint)]
"""A constraint as text, in an accelerator's file or on the command line."""


def _parse_constraint(text: str) -> Constraints | None:
    form = _FORM.fullmatch(text.strip())
    if form is None:
        return None
    level, what, sign, value = form["level"], form["what"], form["sign"], form["value"].strip()
    is_list = what in (None, "order", "keep")
    part = _parse_list(what, sign, value) if is_list else _parse_number(what, sign, value)
    return None if part is None else {level: part}


def _contradicting_constraint(before: Constraints, one: Constraints) -> str | None:
    """Return the earlier constraint that gives the same rank another number of pieces."""
    for level, constraint in one.items():
        given = before.get(level, LevelConstraint()).factors
        for rank, pieces in constraint.factors.items():
            for other, others in given.items():
                if other.lower() == rank.lower() and others != pieces:
                    return f"{level}.{other}={others}"
    return None


def _parse_number(rank: str, sign: str, value: str) -> LevelConstraint | None:
    if value == "all" and sign == "=":
        return LevelConstraint(factors={rank: "all"})
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", value):
        return None
    pieces = {rank: int(value)}
    return LevelConstraint(factors=pieces) if sign == "=" else LevelConstraint(most=pieces)


def _parse_list(what: str | None, sign: str, value: str) -> LevelConstraint | None:
    names = tuple(name.strip() for name in value.split(",")) if value != "none" else ()
    if sign != "=" or not all(re.fullmatch(r"\w+", name) for name in names):
        return None
    if what == "order":
        return LevelConstraint(order=names)
    if what == "keep":
        roles = tuple(role for role in ROLES if role in names)
        return LevelConstraint(keep=roles) if len(roles) == len(names) else None
    return LevelConstraint(ranks=None if names == ("any",) else names)
