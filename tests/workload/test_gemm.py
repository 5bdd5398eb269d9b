import pytest
from hypothesis import given
from hypothesis import strategies as st

from simaccel.errors import InputError
from simaccel.workload import build, gemm, parse_shape, parse_workload

SIZE = "a whole number from 1 to 1099511627776"


def test_gemm_is_one_einsum() -> None:
    workload = gemm(m=3, k=5, n=7, batch=2, bytes_by_tensor={"B": 1})
    (einsum,) = workload.operators
    assert str(einsum) == "gemm: C[b,m,n] = A[b,m,k] B[b,k,n]"
    assert dict(einsum.ranks) == {"b": 2, "m": 3, "k": 5, "n": 7}
    assert workload.macs == 2 * 3 * 5 * 7
    assert [workload.tensor_bytes(name) for name in "ABC"] == [2 * 15 * 2, 2 * 35 * 1, 2 * 21 * 2]
    kinds = [workload.tensors[name].kind for name in "ABC"]
    assert kinds == ["input", "weight", "output"]


def test_gemm_comes_back_from_its_parameters() -> None:
    workload = gemm(m=3, k=5, n=7, batch=2, bytes_per_element=4, bytes_by_tensor={"B": 1})
    again = parse_workload(dict(workload.parameters))
    assert (again, again.parameters) == (workload, workload.parameters)


def test_gemm_reports_all_faults() -> None:
    with pytest.raises(InputError) as caught:
        gemm(m=0, k=2**40, n=2**40 + 1, bytes_per_element=32, bytes_by_tensor={"D": 2, "A": 0})
    assert str(caught.value).splitlines() == [
        f"gemm: M: got 0; allowed: {SIZE}",
        f"gemm: N: got 1099511627777; allowed: {SIZE}",
        "gemm: bytes_by_tensor.A: got 0; allowed: a whole number from 1 to 16",
        "gemm: bytes_per_element: got 32; allowed: a whole number from 1 to 16",
        "gemm: bytes_by_tensor.D: got 2; allowed: one of A, B, C",
    ]


@given(*[st.integers(1, 2**40)] * 4)
def test_shape_is_read_in_any_order(m: int, k: int, n: int, batch: int) -> None:
    assert parse_shape(f"N={n}, B={batch},M={m},K={k}") == {"m": m, "k": k, "n": n, "batch": batch}


def test_a_shape_without_a_batch_has_one() -> None:
    assert parse_shape("M=512,K=64,N=512")["batch"] == 1


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [f"{key}: got nothing; allowed: {SIZE}" for key in "MKN"]),
        ("M=1,K=2", [f"N: got nothing; allowed: {SIZE}"]),
        ("M=0,K=-2,N=3", [f"M: got 0; allowed: {SIZE}", f"K: got -2; allowed: {SIZE}"]),
        (
            "M=x,K=1.5,N=",
            [
                f"{k}: got {v!r}; allowed: {SIZE}"
                for k, v in zip("MKN", ("x", "1.5", ""), strict=True)
            ],
        ),
        ("M=1_0,K=٣,N=1", [f"M: got '1_0'; allowed: {SIZE}", f"K: got '٣'; allowed: {SIZE}"]),
        ("M=1,K=2,N=3,M=4", ["M: got '4'; allowed: each key once"]),
        ("M=1,K=2,N=3,k=4", ["k: got '4'; did you mean 'K'? (allowed: M, K, N, B)"]),
        ("M=1,K=2,N=3,Z=4", ["Z: got '4'; allowed: one of M, K, N, B"]),
        ("M=1,K=2,N=3,5", ["shape: got '5'; allowed: KEY=SIZE, as in M=512,K=64,N=512"]),
        ("M=1,K=2,N=1099511627777", [f"N: got 1099511627777; allowed: {SIZE}"]),
        (f"M=1,K=2,N={'9' * 5000}", [f"N: got '{'9' * 76}...; allowed: {SIZE}"]),
    ],
)
def test_wrong_shapes_say_what_is_wrong(text: str, faults: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse_shape(text)
    assert str(caught.value).splitlines() == [f"--shape: {fault}" for fault in faults]


def test_a_shape_is_text_or_sizes_by_name() -> None:
    assert build("gemm", shape={"M": 3, "K": 4, "N": 5}).macs == 3 * 4 * 5
    with pytest.raises(InputError, match=r"workload: shape: got 5; allowed: M=512,K=64,N=512"):
        build("gemm", shape=5)  # type: ignore[arg-type]
