from simaccel.workload import Einsum, OperatorRow, Tensor, Workload, build, describe, operand


def test_rows_of_a_block() -> None:
    rows = describe(build("bert", batch=1, seq_len=4, scope="la"))
    assert rows[0] == OperatorRow(
        operator="L",
        kind="einsum",
        ranks="b=1 h=12 q=4 c=4 d=64",
        macs=12 * 4 * 4 * 64,
        tensors="Q[b,h,q,d] K[b,h,c,d] S[b,h,q,c]",
        bytes=2 * 12 * (4 * 64 + 4 * 64 + 4 * 4),
    )
    assert [(row.operator, row.kind, row.macs) for row in rows[1:]] == [
        ("softmax", "softmax", 0),
        ("A", "einsum", 12 * 4 * 4 * 64),
    ]


def test_a_tensor_read_twice_counts_once() -> None:
    ranks = {"m": 2, "k": 3, "n": 2}
    gram = Einsum("gram", ranks, (operand("X m k"), operand("X n k")), operand("G m n"))
    tensors = {"X": Tensor("X", 1), "G": Tensor("G", 1, "output")}
    (row,) = describe(Workload("gram", (gram,), tensors))
    assert row.bytes == 6 + 4
