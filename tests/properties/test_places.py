"""Drawn groups on drawn cores: values, work, bounds, and fast-forward."""

from collections.abc import Callable
from itertools import islice

import pytest

from simaccel.diagnosis.check import check
from simaccel.mapping.chips.sharding import pod_of
from simaccel.mapping.text import parse_text, tree_text
from simaccel.program.lowering import lower
from simaccel.program.text import parse_program, program_text
from simaccel.run.conservation import require_program, require_run
from tests.agreement import assert_bounded, assert_exact
from tests.drawn_machines import machines
from tests.drawn_places import draw_placed, draw_windows
from tests.drawn_trees import Drawn
from tests.draws import seeds

_SEEDS, _CHUNKS, _MACHINES = 8, 2, 2


@pytest.mark.parametrize("draw", [draw_placed, draw_windows])
@pytest.mark.parametrize("chunk", range(_CHUNKS))
def test_groups_at_once(chunk: int, draw: Callable[[int], Drawn | None]) -> None:
    """On several machines each: no run is below its bound, or differs without fast-forward."""
    together = 0
    for seed in seeds(_SEEDS, chunk, _CHUNKS):
        case = draw(seed)
        if case is None:
            continue
        assert parse_text(tree_text(case.mapping)) == case.mapping
        program = lower(case.of, case.mapping)
        assert program_text(parse_program(program_text(program))) == program_text(program)
        check(case.of, case.mapping, program)
        require_program(case.of, case.mapping, program)
        for on in islice(machines(case.of, case.mapping, case.on, seed), _MACHINES):
            run, predicted = assert_bounded(case.of, case.mapping, on)
            require_run(pod_of(case.of, case.mapping, on), on, predicted, run)
            assert_exact(case.of, case.mapping, on, run)
        places = {group.place for group in case.mapping.groups}
        together += len(places - {None}) > 1
    assert together > 0
