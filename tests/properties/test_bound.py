"""No run of a mapping is below its lower bound, on any machine; work and bytes are as counted."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simaccel.analytic.family import ints, take, tree_of
from simaccel.mapping.tree import Keep, rewrite
from simaccel.schedulers.chains import chain_family, chain_of
from simaccel.search.judge import mapping_of
from simaccel.workload import Operator
from tests.agreement import assert_bounded
from tests.drawn_machines import example_machine, executes, machines
from tests.drawn_trees import Drawn, draw_case, draw_held, over_cores
from tests.draws import DRAWS
from tests.machine.accelerators import accelerator
from tests.program.tree_cases import CASES
from tests.trees import einsum, mapping, vector, workload

_MACHINES = 14
"""Of each mapping: drawing one takes longer than running it."""
_SEEDS = st.integers(0, 2**32)


def _check(case: Drawn, seed: int) -> None:
    case = over_cores(seed, case)
    for on in islice(machines(case.of, case.mapping, case.on, seed), _MACHINES):
        assert_bounded(case.of, case.mapping, on)


@pytest.mark.parametrize("draw", [draw_case, draw_held])
@given(_SEEDS, st.booleans())
@settings(max_examples=3 * DRAWS)
def test_no_run_of_a_random_tree_is_below_its_bound(
    draw: Callable[..., Drawn],
    seed: int,
    spatial: bool,  # noqa: FBT001
) -> None:
    _check(draw(seed, spatial=spatial), seed)


@given(_SEEDS)
@settings(max_examples=8 * DRAWS)
def test_no_run_of_products_with_epilogues_is_below_its_bound(seed: int) -> None:
    """Tiles with one to three slots stand around the forks of two groups, which may overlap."""
    draw = Random(seed)  # noqa: S311 - reproducible, not secret
    operators, groups = list[Operator](), list[str]()
    for at in range(2):
        m, k, n, ahead = *(draw.randint(1, 12) for _ in range(3)), draw.randint(0, 1)
        operators += [
            einsum(f"p{at}", f"U{at} m n", f"A{at} m k", f"W{at} k n", m=m, k=k, n=n),
            vector(f"v{at}", "residual", f"Y{at} m n", f"U{at} m n", f"R{at} m n", m=m, n=n),
        ]
        lines = [f"loop {rank} {draw.randint(1, size)}" for rank, size in (("m", m), ("n", n))]
        lines += [f"keep {name}{at} buffer x{draw.randint(1, 3)}" for name in "AW"]
        lines = draw.sample(lines, len(lines))
        lines += [f"keep {name}{at} buffer x{draw.randint(1 + ahead, 3)}" for name in "URY"]
        leaves = f"  | do p{at} array {draw.choice(['ws', 'os', 'is'])}", f"  | do v{at} sfu"
        lines += ["fork ahead 1" if ahead else "fork", *leaves]
        groups += [f"group p{at}+v{at}", *(f"  {line}" for line in lines)]
    of = workload(*operators)
    one = mapping(of, "\n".join(groups))
    assume(executes(example_machine(one), of, one))
    for on in islice(machines(of, one, example_machine(one), seed), 4):
        assert_bounded(of, one, on)


@given(_SEEDS)
@settings(max_examples=24 * DRAWS, suppress_health_check=[HealthCheck.filter_too_much])
def test_no_run_of_operators_with_shared_rows_is_below_its_bound(seed: int) -> None:
    """Parts of a feed-forward block in one fork, with loops and one to three slots for each."""
    draw = Random(seed)  # noqa: S311 - reproducible, not secret
    m, d, f = (draw.randint(1, 12) for _ in range(3))
    block = workload(
        vector("norm", "layer_norm", "N m d", "X m d", axis="d", m=m, d=d),
        einsum("gate", "G m f", "N m d", "Wg d f", m=m, d=d, f=f),
        einsum("up", "U m f", "N m d", "Wu d f", m=m, d=d, f=f),
        vector("silu", "silu", "S m f", "G m f", m=m, f=f),
        vector("product", "product", "P m f", "S m f", "U m f", m=m, f=f),
        einsum("down", "D m d", "P m f", "Wd f d", m=m, d=d, f=f),
        vector("add", "residual", "Y m d", "D m d", "X m d", m=m, d=d),
    )
    names = [operator.name for operator in block.operators]
    start = draw.randrange(len(names) - 1)
    names = names[start : start + draw.randint(2, 5)]
    of = block.select_operators(names)
    chain = chain_of(of, names)
    assume(chain is not None)
    assert chain is not None
    family = chain_family(chain, example_machine(mapping_of(of, "", ())))
    one = take(family, tuple(ints(draw.randrange(side)) for side in family.shape))
    tree = rewrite(
        tree_of(one),
        lambda node: replace(node, slots=draw.randint(1, 3)) if isinstance(node, Keep) else node,
    )
    case = mapping_of(of, "", (replace(chain.group, tree=tree),))
    on = example_machine(case)
    assume(executes(on, of, case))
    for other in islice(machines(of, case, on, seed), 4):
        assert_bounded(of, case, other)


@pytest.mark.parametrize("name", CASES)
def test_no_run_of_an_example_is_below_its_bound(name: str) -> None:
    of, one = CASES[name]
    for on in islice(machines(of, one, example_machine(one), len(name)), DRAWS):
        assert_bounded(of, one, on)


@pytest.mark.parametrize("size", [4, 8])
def test_a_tensor_that_is_multiplied_with_itself_has_the_bound_of_two(size: int) -> None:
    """X X with blocks of rows and the whole X: no bytes of the whole count as those of the rows."""
    on = accelerator(
        array={"rows": 2, "cols": 2},
        dram={"bandwidth_bytes_per_second": "2 GB/s", "latency_cycles": 3, "interleave_bytes": 64},
    )
    bounds = []
    for second in ("X", "W"):
        of = workload(
            einsum("g", "S m n", "X m k", f"{second} k n", m=size, k=size, n=size),
            vector("r", "relu", "Y m n", "S m n", m=size, n=size),
        )
        whole = "X#1" if second == "X" else "W"
        tree = f"""
        group g+r
          loop m 2
          keep X buffer, {whole} buffer, S buffer
          fork
            | loop k 2
              do g array ws
            | keep Y buffer
              do r sfu
        """
        bounds.append(assert_bounded(of, mapping(of, tree), on)[1].bound_cycles)
    assert bounds[0] == bounds[1]
