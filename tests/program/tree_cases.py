"""The mapping trees of the design at small prime sizes, with remainders at every cut."""

from simaccel.mapping.tree import Mapping
from simaccel.workload import Workload
from tests.trees import einsum, mapping, vector, workload

GEMM = workload(einsum("FF", "out m n", "x m k", "W k n", m=7, n=11, k=5))


def _attention(g: int = 3, q: int = 7, c: int = 11, d: int = 5) -> Workload:
    return workload(
        einsum("L", "S g q c", "Q g q d", "K g c d", g=g, q=q, c=c, d=d),
        vector("softmax", "softmax", "P g q c", "S g q c", axis="c", g=g, q=q, c=c),
        einsum("A", "Z g q d", "P g q c", "V g c d", g=g, q=q, c=c, d=d),
    )


ATTENTION = _attention()
_FFN = workload(
    einsum("FF1", "H r f", "X r e", "W1 e f", r=7, e=5, f=11),
    vector("gelu", "gelu", "G r f", "H r f", r=7, f=11),
    einsum("FF2", "Y r e", "G r f", "W2 f e", r=7, e=5, f=11),
)
_NORM = workload(
    vector("norm", "rms_norm", "N r e", "X r e", "gain e", axis="e", r=7, e=5),
    einsum("Wq", "Q r o", "N r e", "W e o", r=7, e=5, o=11),
)
_RESIDUAL = workload(
    einsum("Wo", "Y r o", "N r e", "W e o", r=7, e=5, o=11),
    vector("add", "residual", "T r o", "Y r o", "X r o", r=7, o=11),
)
_CONV = workload(
    einsum("conv2", "O m p q", "I c p+r q+s", "W m c r s", m=5, c=3, p=7, q=5, r=3, s=3)
)
_CONVS = workload(
    einsum("c1", "T m p q", "I c p+r q+s", "W1 m c r s", m=3, c=2, p=9, q=7, r=3, s=3),
    einsum("c2", "O n p q", "T m p+r q+s", "W2 n m r s", n=5, m=3, p=7, q=5, r=3, s=3),
)
_DECODE = workload(
    einsum("L", "S g r q c", "Q g r q d", "K g c d", g=2, r=4, q=1, c=11, d=5),
    vector("softmax", "softmax", "P g r q c", "S g r q c", axis="c", g=2, r=4, q=1, c=11),
    einsum("A", "Z g r q d", "P g r q c", "V g c d", g=2, r=4, q=1, c=11, d=5),
)
_SOFTMAX = workload(vector("softmax", "softmax", "P row c", "S row c", axis="c", row=5, c=11))

_TEXTS: dict[str, tuple[Workload, str]] = {
    "gemm": (
        GEMM,
        """
        group FF
          loop m 3
          loop n 4
          keep out buffer x2
          loop k 2
          keep x buffer x2, W buffer x2
          do FF array ws
        """,
    ),
    "gemm sums come back": (
        GEMM,
        """
        group FF
          loop k 2
          loop m 3
          loop n 4
          keep x buffer x2, W buffer x2, out buffer x2
          do FF array os
        """,
    ),
    "flex resident": (
        ATTENTION,
        """
        around
          keep S[0..1,0..7,0..11] buffer, S[1..2,0..5,0..11] buffer
          group L
            part g 1 1 rest
              | loop q 3
                keep Q buffer x2, K buffer x2
                do L array os
              | part q 5 rest
                  | loop q 3
                    loop c 4
                    keep Q buffer x2, K buffer x2
                    do L array os
                  | loop q 3
                    loop c 4
                    keep S buffer x2, Q buffer x2, K buffer x2
                    do L array os
              | loop g 1
                loop q 3
                keep S buffer x2, Q buffer x2, K buffer x2
                do L array os
          group softmax
            part g 1 1 rest
              | loop q 3
                do softmax sfu
              | part q 5 rest
                  | do softmax sfu
                  | loop q 1
                    keep S buffer x2
                    do softmax sfu
              | loop q 2
                keep S buffer x2
                do softmax sfu
          group A
            part g 1 1 rest
              | loop q 3
                loop c 4
                keep V buffer x2, Z buffer
                do A array ws
              | part q 5 rest
                  | loop d 2
                    keep V buffer, Z buffer
                    do A array ws
                  | loop d 3
                    loop q 1
                    keep P buffer x2, V buffer x2, Z buffer x2
                    do A array ws
              | keep P buffer, V buffer, Z buffer
                do A array is
        """,
    ),
    "flat rows": (
        ATTENTION,
        """
        group L+softmax+A
          loop g 1
          keep K buffer x2, V buffer x2
          loop q 3
          keep Q buffer x2, Z buffer x2, S buffer
          fork
            | do L array ws
            | do softmax sfu
            | do A array os
        """,
    ),
    "flat heads": (
        ATTENTION,
        """
        group L+softmax+A
          loop g 2
          keep K buffer x2, V buffer x2, Q buffer x2, Z buffer x2, S buffer
          fork
            | do L array ws
            | do softmax sfu
            | do A array os
        """,
    ),
    "flat whole": (
        ATTENTION,
        """
        group L+softmax+A
          keep K buffer, V buffer, Q buffer, Z buffer, S buffer, P buffer
          fork
            | do L array ws
            | do softmax sfu
            | do A array os
        """,
    ),
    "flat streamed keys": (
        ATTENTION,
        """
        group L+softmax+A
          loop g 1
          loop q 3
          keep Q buffer x2, Z buffer x2, S buffer
          fork
            | loop c 4
              keep K buffer x2
              do L array os
            | do softmax sfu
            | loop c 5
              keep V buffer x2
              do A array os
        """,
    ),
    "flash": (
        ATTENTION,
        """
        group L+softmax+A
          loop g 1
          loop q 3
          keep Q buffer x2, Z buffer x2
          loop c 4
          keep K buffer x2, V buffer x2, S buffer
          fork
            | do L array os
            | do softmax sfu
            | do A array os
        """,
    ),
    "flash pipelined": (
        ATTENTION,
        """
        group L+softmax+A
          loop g 1
          loop q 3
          keep Q buffer x2, Z buffer x2
          loop c 4
          keep K buffer x2, V buffer x2, S buffer x2
          fork ahead 1
            | do L array os
            | do softmax sfu
            | do A array os
        """,
    ),
    "flat pipelined": (
        ATTENTION,
        """
        group L+softmax+A
          loop g 1
          keep K buffer x2, V buffer x2
          loop q 3
          keep Q buffer x2, Z buffer x2, S buffer x2
          fork ahead 1
            | do L array ws
            | do softmax sfu
            | do A array os
        """,
    ),
    "softmax alone": (
        _SOFTMAX,
        """
        group softmax
          loop row 1
          loop c 4
          keep S buffer x2
          do softmax sfu
        """,
    ),
    "softmax alone, out of place": (
        _SOFTMAX,
        """
        group softmax
          loop row 2
          loop c 4
          keep S buffer x2, P buffer x2
          do softmax sfu
        """,
    ),
    "spatial convolution": (
        _CONV,
        """
        group conv2
          loop m 3
          loop p 4
          keep I buffer x2, O buffer x2
          loop c 2
          spread s 1 rows
          spread q 2 cols
          keep W pe x2, I pe, O pe
          loop r 1
          loop c 1
          do conv2 mac
        """,
    ),
    "systolic convolution": (
        _CONV,
        """
        group conv2
          loop p 4
          loop r 2
          keep I buffer x2, O buffer, W buffer
          do conv2 array ws
        """,
    ),
    "ffn": (
        _FFN,
        """
        group FF1+gelu+FF2
          loop r 3
          keep X buffer x2, Y buffer x2
          loop f 4
          keep W1 buffer x2, W2 buffer x2, H buffer
          fork
            | do FF1 array ws
            | do gelu sfu
            | do FF2 array ws
        """,
    ),
    "norm before": (
        _NORM,
        """
        group norm+Wq
          keep gain buffer
          loop r 3
          keep X buffer x2
          fork
            | do norm sfu
            | loop o 4
              keep W buffer x2, Q buffer x2
              do Wq array ws
        """,
    ),
    "norm before in pieces": (
        _NORM,
        """
        group norm+Wq
          keep gain buffer
          loop r 3
          keep N buffer
          fork
            | loop e 2
              keep X buffer x2
              do norm sfu
            | keep W buffer, Q buffer x2
              do Wq array ws
        """,
    ),
    "residual behind": (
        _RESIDUAL,
        """
        group Wo+add
          loop r 3
          loop o 4
          keep Y buffer x2, X buffer x2
          fork
            | loop e 2
              keep N buffer, W buffer x2
              do Wo array ws
            | do add sfu
        """,
    ),
    "two convolutions": (
        _CONVS,
        """
        group c1+c2
          keep W1 buffer, W2 buffer
          loop p2 3
          loop q2 2
          keep I buffer x2, T buffer, O buffer x2
          fork
            | do c1 array ws
            | do c2 array ws
        """,
    ),
    "decode": (
        _DECODE,
        """
        group L+softmax+A
          loop g 1
          keep Q buffer x2, Z buffer x2
          loop c 4
          keep K buffer x2, V buffer x2, S buffer
          fork
            | do L array ws
            | do softmax sfu
            | do A array ws
        """,
    ),
    "around several": (
        _FFN,
        """
        around
          keep H buffer
          group FF1
            loop f 4
            keep X buffer, W1 buffer x2
            do FF1 array ws
          group gelu
            loop f 5
            do gelu sfu
          group FF2
            loop r 3
            keep W2 buffer, Y buffer x2
            do FF2 array os
        """,
    ),
    "around windows": (
        _CONVS,
        """
        around
          keep T buffer
          group c1
            loop p 4
            keep I buffer x2, W1 buffer
            do c1 array ws
          group c2
            loop p 3
            keep W2 buffer, O buffer x2
            do c2 array ws
        """,
    ),
}

CASES: dict[str, tuple[Workload, Mapping]] = {
    name: (of, mapping(of, text)) for name, (of, text) in _TEXTS.items()
}
