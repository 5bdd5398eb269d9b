"""Checks, whole and sampled, find programs that compute something else than their workload."""

from dataclasses import replace

import numpy as np
import pytest

from simaccel.diagnosis.check import (
    CheckFailedError,
    TooLargeToCheckError,
    check,
    einsum_values,
    execute,
    vector_values,
)
from simaccel.diagnosis.check_chips import check_chips
from simaccel.importers.accelerators import load_accelerator
from simaccel.mapping.cores import core_spreads
from simaccel.mapping.space import holding_tensor
from simaccel.program.lowering import lower
from simaccel.program.program import Compute, Node, Operator, Program, ProgramLoop, Store
from simaccel.program.text import parse_program, program_text
from simaccel.schedulers import NothingFitsError, Options, make_mapping
from simaccel.study.experiment import simulate
from simaccel.workload import (
    AffineDimension,
    Einsum,
    ModelDimensions,
    Operand,
    Tensor,
    Vector,
    Workload,
    attention,
    build,
    gemm,
    operand,
)
from simaccel.workload.attention import Scope
from tests.draws import DRAWS
from tests.trees import mapping, vector, workload
from validation.searches import QUICK

SMALL = ModelDimensions(hidden=4, heads=2, head_size=3, ff_size=5, layers=2)
TINY = ModelDimensions(hidden=3, heads=2, head_size=2, ff_size=5)


@pytest.mark.parametrize(
    ("dataflow", "capacity", "scope"),
    [
        *((name, "1 KiB", "model") for name in ("naive", "flex", "flat", "flash")),
        ("best", "1 KiB", "la"),
        *[("flex", "unlimited", "model"), ("best", "1 KiB", "block")] * (DRAWS > 1),
    ],
)
def test_every_dataflow_computes_the_model(dataflow: str, capacity: str, scope: Scope) -> None:
    """Each granularity of flex and flat computes attention in tests/schedulers/test_dataflows."""
    rows, sizes = (5, SMALL) if scope == "model" else (3, TINY)
    workload = attention(sizes, batch=2, seq_len=rows, scope=scope)
    accelerator = load_accelerator("toy", [f"buffer.capacity_bytes={capacity}"])
    try:
        mapping = make_mapping(workload, accelerator, dataflow, QUICK)
    except NothingFitsError:
        assert capacity != "unlimited"
        return
    found = check(workload, mapping, lower(workload, mapping))
    assert [one.operator for one in found] == [one.name for one in workload.operators]
    groups = [group for group, _ in mapping.groups_with_keeps()]
    inside = {name for group in groups for name in group.operators[:-1]} | {"L", "softmax"}
    keeps = [keep for _, around in mapping.groups_with_keeps() for keep in around]
    inside |= {
        one.name
        for one in workload.operators
        if holding_tensor(workload, one.output.tensor, keeps) in {keep.tensor for keep in keeps}
    }
    for one in found:
        if one.operator not in inside:  # what they make may stay on chip
            assert one.compared == one.elements
        assert one.deviation < 1e-12


def _checked(workload: Workload, edit: tuple[str, str]) -> None:
    mapping = make_mapping(workload, load_accelerator("toy"), "naive-m")
    text = program_text(lower(workload, mapping))
    assert edit[0] in text
    check(workload, mapping, parse_program(text.replace(*edit)))


def test_a_wrong_scale_is_found() -> None:
    """Where it leaves the chip: weights that stay are seen in what A makes of them."""
    workload = attention(SMALL, batch=1, seq_len=5, scope="la")
    with pytest.raises(
        CheckFailedError, match=r"check failed: (softmax|A) writes .* plain numpy has"
    ):
        _checked(workload, ("scale 0.57", "scale 0.67"))


def test_a_missing_reduction_step_is_found() -> None:
    workload = gemm(m=9, k=7, n=5)
    mapping = make_mapping(workload, load_accelerator("toy"), "naive-m")
    program = lower(workload, mapping)

    def without(body: tuple[Node, ...]) -> tuple[Node, ...]:
        kept = [n for n in body if not (isinstance(n, Compute) and n.accumulate)]
        return tuple(
            replace(n, body=without(n.body)) if isinstance(n, ProgramLoop | Operator) else n
            for n in kept
        )

    with pytest.raises(CheckFailedError, match="check failed: gemm writes"):
        check(workload, mapping, Program(name="p", body=without(program.body)))


def test_an_output_that_is_not_stored_is_found() -> None:
    workload = gemm(m=9, k=7, n=5)
    mapping = make_mapping(workload, load_accelerator("toy"), "naive-m")
    program = lower(workload, mapping)

    def without(body: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(
            replace(n, body=without(n.body)) if isinstance(n, ProgramLoop | Operator) else n
            for n in body
            if not isinstance(n, Store)
        )

    with pytest.raises(CheckFailedError, match="leaves 45 of 45 elements of C unwritten"):
        check(workload, mapping, Program(name="p", body=without(program.body)))


def test_a_missing_operator_is_found() -> None:
    workload = attention(SMALL, batch=1, seq_len=5, scope="la")
    mapping = make_mapping(workload, load_accelerator("toy"), "strips")
    program = lower(workload, mapping)
    with pytest.raises(CheckFailedError, match="the program lacks operator A"):
        check(workload, mapping, Program(name="p", body=program.body[:-1]))


def test_a_large_workload_is_refused() -> None:
    workload = gemm(m=1000, k=1000, n=1000)
    mapping = make_mapping(workload, load_accelerator("edge"), "naive-m")
    with pytest.raises(TooLargeToCheckError, match=r"1,000,000,000 MACs.*at most 100,000,000"):
        check(workload, mapping, lower(workload, mapping))


def test_vector_operators_are_computed_on_whole_tensors() -> None:
    numbers = np.random.default_rng(1)
    x, gain = numbers.normal(size=(2, 3, 4)), numbers.normal(size=4)
    given = (operand("X b q c"), operand("G c"))
    norm = Vector("n", "layer_norm", {"b": 2, "q": 3, "c": 4}, given, operand("Y c b q"), "c")
    apart = x - x.mean(axis=2, keepdims=True)
    expected = apart / np.sqrt((apart**2).mean(axis=2, keepdims=True) + 1e-5) * gain
    found = vector_values(norm, {"X": x, "G": gain})
    np.testing.assert_allclose(found, expected.transpose(2, 0, 1))
    windows = Operand(
        "I", (AffineDimension((("p", 2), ("r", 1))), AffineDimension((("q", 1), ("s", 1))))
    )
    ranks = {"p": 3, "q": 4, "r": 2, "s": 3}
    pool = Vector("p", "average_pooling", ranks, (windows,), operand("O q p"))
    image = numbers.normal(size=(6, 6))
    means = [[image[2 * p : 2 * p + 2, q : q + 3].mean() for p in range(3)] for q in range(4)]
    np.testing.assert_allclose(vector_values(pool, {"I": image}), means)


def test_tensors_without_dimensions_are_compared() -> None:
    """As of a mean over everything: x' = max(x, 0), then x' + y."""
    of = workload(vector("one", "relu", "T", "x"), vector("two", "residual", "O", "T", "y"))
    one = mapping(
        of,
        """
        group one+two
          keep x buffer, T buffer, y buffer
          fork
            | do one sfu
            | keep O buffer
              do two sfu
        """,
    )
    found = check(of, one, lower(of, one))
    assert [(done.compared, done.elements) for done in found] == [(0, 1), (1, 1)]


def test_an_output_repeats_what_it_has_a_rank_for_that_no_input_has() -> None:
    repeat = Einsum("repeat", {"m": 2, "n": 3}, (operand("A m"),), operand("B m n"))
    of = Workload("w", (repeat,), {"A": Tensor("A"), "B": Tensor("B", kind="output")})
    values = einsum_values(repeat, {"A": np.array([5.0, 7.0])})
    np.testing.assert_array_equal(values, [[5, 5, 5], [7, 7, 7]])
    result = simulate(of, load_accelerator("eyeriss_like"), "ruby")
    assert check(of, result.mapping, result.program)


def test_values_that_overflow_are_not_called_unwritten() -> None:
    """Infinity less itself is no number, whoever adds it up."""
    of = gemm(m=2, k=2, n=2)
    on = load_accelerator("toy")
    chosen = make_mapping(of, on, "naive-m", Options())
    tensors = {name: np.full(shape, np.inf) for name, shape in of.shapes.items()}
    tensors["B"][..., 0, :] *= -1
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(CheckFailedError, match="no numbers in plain numpy"),
    ):
        execute(of, chosen, lower(of, chosen), tensors)


def test_two_chips_of_two_cores_make_what_numpy_makes() -> None:
    fields = {
        "chips": "2",
        "links.bytes_per_second": "70 GB/s",
        "links.pj_per_bit": "1",
        "cores.count": "2",
    }
    on = load_accelerator("mxu_128", [f"{name}={value}" for name, value in fields.items()])
    whole = build("bert", seq_len=4)
    result = simulate(whole, on, "naive-m")
    assert all(core_spreads(group) for group in result.mapping.groups if group.name != "softmax")
    assert {one.tensor for one in result.pod.exchanges} == {"Y", "U"}
    assert result.run.cycles >= result.prediction.bound_cycles
    assert all(check.deviation < 1e-12 for check in check_chips(whole, result.pod))
