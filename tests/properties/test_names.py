"""Names and shapes of any kind, through program text, mapping text, YAML, and traces."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from simaccel import Trace, load_accelerator, record
from simaccel.files.documents import parse_document
from simaccel.mapping.documents import parse_mapping
from simaccel.mapping.files import mapping_text
from simaccel.mapping.text import parse_text, tree_text
from simaccel.program.lowering import lower
from simaccel.program.program import Program
from simaccel.program.text import parse_program, program_text
from simaccel.study.scheduling import schedule_workload
from simaccel.workload import AffineDimension, Einsum, Operand, Tensor, Vector, Workload
from simaccel.workload.einsum import Kind
from tests.draws import DRAWS

EDGE = load_accelerator("edge")
NO_NAME = " []{}(),;=<>\"'&*|`\\"
WORDS = ("tile", "over", "of", "axis", "loop", "x2", "4b", "2B", "queue", "merging", "rest")
NAMES = st.one_of(
    st.sampled_from(WORDS),
    st.from_regex(r"[@/:.#%+?!$^~a-zA-Z0-9_-]{1,12}", fullmatch=True),
    st.text(
        st.characters(exclude_categories=("C", "Z"), exclude_characters=NO_NAME),
        min_size=1,
        max_size=6,
    ).filter(str.isprintable),
).filter(lambda one: one[0] not in "=+-@")


@st.composite
def chains(draw: st.DrawFn) -> Workload:
    """A product, a function of what it makes, and a sum with a tensor of few dimensions or none."""
    some_name = NAMES.filter(lambda one: "+" not in one)
    ranks = draw(st.lists(some_name, min_size=3, max_size=3, unique=True))
    names = draw(
        st.lists(NAMES.filter(lambda one: "#" not in one), min_size=6, max_size=6, unique=True)
    )
    operators = draw(st.lists(NAMES, min_size=3, max_size=3, unique=True))
    m, k, n = ranks
    sizes = {rank: draw(st.integers(1, 9)) for rank in ranks}
    some = draw(st.lists(st.sampled_from([m, n]), unique=True))

    def whole(tensor: str, *dims: str) -> Operand:
        return Operand(tensor, tuple(AffineDimension(((rank, 1),)) for rank in dims))

    first, weights, made, after, other, last = names
    both = {rank: sizes[rank] for rank in (m, n)}
    chain = (
        Einsum(operators[0], sizes, (whole(first, m, k), whole(weights, k, n)), whole(made, m, n)),
        Vector(operators[1], "gelu", both, (whole(made, m, n),), whole(after, m, n)),
        Vector(
            operators[2],
            "residual",
            both,
            (whole(after, m, n), whole(other, *some)),
            whole(last, m, n),
        ),
    )
    kinds: tuple[Kind, ...] = ("input", "weight", "intermediate", "intermediate", "input", "output")
    tensors = {name: Tensor(name, kind=kind) for name, kind in zip(names, kinds, strict=True)}
    return Workload(draw(NAMES), chain, tensors)


@given(workload=chains(), dataflow=st.sampled_from(["naive", "flat"]))
@settings(max_examples=3 * DRAWS, deadline=None)
def test_texts_of_any_names_read_back(workload: Workload, dataflow: str) -> None:
    mapping = schedule_workload(workload, EDGE, dataflow)
    program = lower(workload, mapping)
    assert parse_program(program_text(program)) == program
    assert parse_text(tree_text(mapping)) == mapping
    assert parse_mapping(dict(parse_document(mapping_text(mapping))), "mapping") == mapping


@given(workload=chains())
@settings(max_examples=2 * DRAWS, deadline=None)
def test_traces_of_any_names_open_again(workload: Workload) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.h5"
        result = record(path, workload, EDGE, "naive")
        with Trace.open(path) as trace:
            found: Program = trace.program()
            assert found == result.program
            assert trace.workload() == workload
            assert trace.mapping() == result.mapping


def test_a_function_of_one_number_opens_again(tmp_path: Path) -> None:
    """As ONNX models have them: a tensor without dimensions, an operator without ranks."""
    one = Vector("/Mul@1", "gelu", {}, (Operand("/x@", ()),), Operand("y/", ()))
    tensors = {"/x@": Tensor("/x@"), "y/": Tensor("y/", kind="output")}
    workload = Workload("number", (one,), tensors)
    result = record(tmp_path / "run.h5", workload, EDGE, "naive")
    with Trace.open(tmp_path / "run.h5") as trace:
        assert trace.program() == result.program
        assert trace.workload() == workload
