"""A run that does something else than its workload is refused, and is no figure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from simaccel.analytic.prediction import predict
from simaccel.importers.accelerators import load_accelerator
from simaccel.machine.machine import Machine
from simaccel.mapping.checks import IllegalMappingError, require_legal
from simaccel.mapping.chips.sharding import pod_of
from simaccel.program.accounting import missing_elements
from simaccel.program.lowering import lower
from simaccel.program.program import Node, Operator, ProgramLoop
from simaccel.run.conservation import ConservationError, require_program, require_run
from tests.program.changed import changed, unstored
from tests.refusals import refusal_of
from tests.trees import einsum, mapping, vector, workload

TOY = load_accelerator("toy")
OF = workload(
    einsum("one", "T m n", "A m k", "B k n", m=7, k=5, n=4),
    vector("act", "relu", "U m n", "T m n", m=7, n=4),
    repeat=3,
)
MAPPING = mapping(
    OF,
    """
    group one+act
      loop m 2
      keep A buffer, B buffer, T buffer
      fork
        | do one array ws
        | do act sfu
    """,
)


def _shorter(node: Node) -> Node:
    """Take an iteration from each loop over rows."""
    if isinstance(node, ProgramLoop) and node.rank == "m" and node.trips > 1:
        return replace(node, trips=node.trips - 1)
    return node


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_shorter, "one: 100 MACs in its program, 140 in its tree"),
        (unstored, "act: of U positions none of dimension 0 are stored, not 0..7"),
    ],
)
def test_a_program_that_does_less(change: Callable[[Node], Node | None], what: str) -> None:
    """By hand: 7 x 5 x 4 MACs; a block of two rows fewer."""
    program = lower(OF, MAPPING)
    require_program(OF, MAPPING, program)
    said = refusal_of(
        require_program, OF, MAPPING, changed(program, change), error=ConservationError
    )
    first, *text = said.splitlines()
    assert first == f"an internal error, please report it: {what}; the mapping:"
    assert "  group one+act" in text


def test_stores_are_joined_across_loops_and_the_rest() -> None:
    """Rows 0..6 come in three blocks of two, and one of one."""
    (operator,) = (node for node in lower(OF, MAPPING).body[0].body)  # type: ignore[union-attr]
    assert isinstance(operator, Operator)
    made = OF.operator("act").output
    view = next(
        t.view for node in operator.body for t in getattr(node, "tiles", ()) if t.name == "T"
    )
    view = replace(view, name=made.tensor)
    assert missing_elements(operator, replace(view, shape=(7, 4)), []) == ""
    left = missing_elements(operator, replace(view, shape=(8, 4)), [])
    assert left == "positions 0..7 of dimension 0 are stored, not 0..8"
    assert missing_elements(operator, replace(view, shape=(8, 4)), [(((7, 8),), ((0, 4),))]) == ""
    left = missing_elements(operator, replace(view, shape=(8, 4)), [(((7, 8),), ((1, 4),))])
    assert left == "the element at [7, 0] is not stored"


@pytest.mark.parametrize(("field", "kind"), [("macs", "MACs"), ("elements", "elements")])
def test_a_machine_that_counts_something_else(field: str, kind: str) -> None:
    run = Machine(TOY, lower(OF, MAPPING)).run()
    predicted, pod = predict(OF, MAPPING, TOY), pod_of(OF, MAPPING, TOY)
    require_run(pod, TOY, predicted, run)
    (one,) = run.operators
    wrong = replace(run, operators=(replace(one, **{field: getattr(one, field) - 1}),))
    with pytest.raises(ConservationError, match=f"one[+]act: {kind}: "):
        require_run(pod, TOY, predicted, wrong)


@pytest.mark.parametrize(
    ("less", "said"),
    [
        ({"macs": 419}, "MACs: 420 at least, 419 counted, 419 on the"),
        (
            {"moved": {("dram_read", "A"): 3 * 2 * 7 * 5}},
            r"one[+]act: 210 bytes with DRAM, at least 498",
        ),
    ],
)
def test_work_that_formulas_and_machine_both_lack(less: dict[str, Any], said: str) -> None:
    """By hand: 3 x 7 x 5 x 4 = 420 MACs; and bytes below the floor."""
    run = Machine(TOY, lower(OF, MAPPING)).run()
    predicted = predict(OF, MAPPING, TOY)
    predicted = replace(predicted, groups=(replace(predicted.groups[0], **less),))
    run = replace(run, operators=(replace(run.operators[0], **less),))
    with pytest.raises(ConservationError, match=said):
        require_run(pod_of(OF, MAPPING, TOY), TOY, predicted, run)


def test_a_run_below_its_bound_names_the_terms() -> None:
    run = Machine(TOY, lower(OF, MAPPING)).run()
    predicted = predict(OF, MAPPING, TOY)
    terms = {"fill": 7, "array": run.cycles - 7, "drain": 1, "dram": 0}
    more = replace(predicted, bound_terms=terms)
    said = rf"at least {run.cycles + 1} \(fill 7, array {run.cycles - 7}, drain 1\) by lower_bound"
    with pytest.raises(ConservationError, match=said):
        require_run(pod_of(OF, MAPPING, TOY), TOY, more, run)


def test_a_search_that_finds_something_illegal() -> None:
    """The statistics of what reads `T` beside this group would be of what is written over it."""
    of = workload(*OF.operators, vector("other", "relu", "V m n", "T m n", m=7, n=4))
    behind = """
    group other
      keep T buffer, V buffer
      do other sfu
    """
    text = """
    group one+act
      keep A buffer, B buffer, T buffer
      fork
        | do one array ws
        | do act sfu
    """
    with pytest.raises(IllegalMappingError, match=r"got 'do act sfu'; allowed: keep U buffer"):
        require_legal(of, mapping(of, text.rstrip() + behind), TOY)
    with pytest.raises(IllegalMappingError, match="no group has other"):
        require_legal(of, mapping(of, text.replace("T buffer", "T buffer, U buffer")), TOY)
