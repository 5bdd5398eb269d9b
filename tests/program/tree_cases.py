"""The mapping trees of the design at small prime sizes, with remainders at every cut."""

from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from tests.data_files import data_beside
from tests.trees import einsum, mapping, vector, workload

GEMM = workload(einsum("FF", "out m n", "x m k", "W k n", m=7, n=11, k=5))
ATTENTION = workload(
    einsum("L", "S g q c", "Q g q d", "K g c d", g=3, q=7, c=11, d=5),
    vector("softmax", "softmax", "P g q c", "S g q c", axis="c", g=3, q=7, c=11),
    einsum("A", "Z g q d", "P g q c", "V g c d", g=3, q=7, c=11, d=5),
)
WORKLOADS = {
    "gemm": GEMM,
    "attention": ATTENTION,
    "ffn": workload(
        einsum("FF1", "H r f", "X r e", "W1 e f", r=7, e=5, f=11),
        vector("gelu", "gelu", "G r f", "H r f", r=7, f=11),
        einsum("FF2", "Y r e", "G r f", "W2 f e", r=7, e=5, f=11),
    ),
    "norm": workload(
        vector("norm", "rms_norm", "N r e", "X r e", "gain e", axis="e", r=7, e=5),
        einsum("Wq", "Q r o", "N r e", "W e o", r=7, e=5, o=11),
    ),
    "residual": workload(
        einsum("Wo", "Y r o", "N r e", "W e o", r=7, e=5, o=11),
        vector("add", "residual", "T r o", "Y r o", "X r o", r=7, o=11),
    ),
    "conv": workload(
        einsum("conv2", "O m p q", "I c p+r q+s", "W m c r s", m=5, c=3, p=7, q=5, r=3, s=3)
    ),
    "convs": workload(
        einsum("c1", "T m p q", "I c p+r q+s", "W1 m c r s", m=3, c=2, p=9, q=7, r=3, s=3),
        einsum("c2", "O n p q", "T m p+r q+s", "W2 n m r s", n=5, m=3, p=7, q=5, r=3, s=3),
    ),
    "decode": workload(
        einsum("L", "S g r q c", "Q g r q d", "K g c d", g=2, r=4, q=1, c=11, d=5),
        vector("softmax", "softmax", "P g r q c", "S g r q c", axis="c", g=2, r=4, q=1, c=11),
        einsum("A", "Z g r q d", "P g r q c", "V g c d", g=2, r=4, q=1, c=11, d=5),
    ),
    "softmax": workload(vector("softmax", "softmax", "P row c", "S row c", axis="c", row=5, c=11)),
}
CASES: dict[str, tuple[Workload, Mapping]] = {
    name: (of, mapping(of, case["tree"]))
    for name, case in data_beside(__file__).items()
    for of in [WORKLOADS[case["of"]]]
}
