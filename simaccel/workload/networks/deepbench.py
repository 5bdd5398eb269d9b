"""DeepBench: the matrix products and convolutions of Baidu's list, for training and inference.

The files code/kernels/gemm_problems.h and conv_problems.h of github.com/baidu-research/DeepBench
have three sets each: training, inference on a server and on a device. Their kernels have no names;
here a name is made of the set and the published sizes in the published order:

    server_gemm_5124x700x2048                 M x N x K; _ta, _tb: a factor is stored transposed
    training_conv_700x161x1_n4_k32_20x5_s2    W x H x C, batch, filters, filter W x H, stride

Kernels that stand in the list twice get _2. A product's first factor I is DeepBench's A (in most
products the weights, M the outputs of a layer and N the batch), its second factor W is B.
"""

from collections.abc import Iterator
from itertools import product as cross

from simaccel.workload.conv import Conv, positions
from simaccel.workload.layers import Layers, Network, Product, Shape, distinct_names

Gemm = tuple[int, int, int, str]
"""M, N, K and which factor is transposed: "", "ta" or "tb"."""
Kernel = tuple[int, int, int, int, int, int, int, int, int, int, int]
"""W, H, C, batch, filters, filter W and H, padding in W and H, stride in W and H."""
Pattern = tuple[int, int, int, int, int, int, int]
"""W, H, C, filters, filter size, padding and stride of a square filter."""

_HIDDEN = ((7680, 2560), (6144, 2048), (4608, 1536), (8448, 2816), (3072, 1024))
_OUTER = tuple(cross((512, 1024), (2816, 2048, 2560, 1536)))
_DEVICE_GEMMS = (
    (5124, 700, 2048),
    (35, 700, 2048),
    (3072, 1, 1024),
    (64, 1, 1216),
    (3072, 1500, 1024),
    (128, 1500, 1280),
    (3072, 1500, 128),
    (128, 1, 1024),
    (3072, 1, 128),
    (176, 1500, 1408),
    (4224, 1500, 176),
    (128, 1, 1408),
    (4224, 1, 128),
)


def _training_gemms() -> Iterator[Gemm]:
    square, small = (1760, 2048, 2560, 4096), (16, 32, 64, 128)
    for op in ("", "ta"):
        yield from ((h, n, h, op) for h in square for n in (*small, 7000))
    yield from ((h, 7133, h, "tb") for h in square)
    for op in ("", "ta"):
        yield from ((m, n, k, op) for k in square for m, n in ((5124, 9124), (35, 8457)))
    for m, k in ((7680, 2560), (3072, 1024)):
        yield from ((m, n, k, op) for op in ("", "ta") for n in small)
    yield from ((3072, 7435, 1024, "tb"), (7680, 5481, 2560, "tb"))
    yield from ((m, n, 500000, op) for op in ("", "ta") for n in (8, 16) for m in (512, 1024))
    yield from ((1024, 700, 512, op) for op in ("", "ta"))
    yield from ((m, n, k, op) for op in ("", "ta") for n in (24000, 48000) for m, k in _HIDDEN)
    yield from ((m, n, k, op) for op in ("", "ta") for n in (16, 32) for m, k in _HIDDEN[1:4])
    for long, short in ((24000, 16), (48000, 32)):
        for op, short_op in (("", ""), ("ta", "tb")):
            yield from ((m, long, k, op) for m, k in _OUTER)
            yield from ((m, short, 512, short_op) for m in (512, 1024))


def _server_gemms() -> Iterator[Gemm]:
    batches = (1, 2, 4)
    yield from ((m, n, k, "") for n in (700, 1500) for k in (2048, 2560) for m in (5124, 35))
    yield from ((m, n, k, "") for m, k in ((7680, 2560), (3072, 1024)) for n in batches)
    yield from ((m, n, 500000, "") for n in batches for m in (512, 1024))
    yield (1024, 700, 512, "")
    yield from ((m, n, k, "") for n in (1500, 3000, 6000) for m, k in _HIDDEN)
    yield from ((m, n, k, "") for n in batches for m, k in _HIDDEN[1:4])
    for long, short in ((1500, 1), (3000, 2), (6000, 4)):
        yield from ((m, long, k, "") for m, k in _OUTER)
        yield from ((m, short, 512, "") for m in (512, 1024))


_TEXT: tuple[Pattern, ...] = (
    (480, 48, 1, 16, 3, 1, 1),
    (240, 24, 16, 32, 3, 1, 1),
    (120, 12, 32, 64, 3, 1, 1),
    (60, 6, 64, 128, 3, 1, 1),
)
_FACES: tuple[Pattern, ...] = (
    (108, 108, 3, 64, 3, 1, 2),
    (54, 54, 64, 64, 3, 1, 1),
    (27, 27, 128, 128, 3, 1, 1),
    (14, 14, 128, 256, 3, 1, 1),
    (7, 7, 256, 512, 3, 1, 1),
)
_VISION: tuple[Pattern, ...] = (
    (224, 224, 3, 64, 3, 1, 1),
    (112, 112, 64, 128, 3, 1, 1),
    (56, 56, 128, 256, 3, 1, 1),
    (28, 28, 256, 512, 3, 1, 1),
    (14, 14, 512, 512, 3, 1, 1),
    (7, 7, 512, 512, 3, 1, 1),
)
_INCEPTION: tuple[Pattern, ...] = (
    (224, 224, 3, 64, 7, 3, 2),
    (28, 28, 192, 32, 5, 2, 1),
    (28, 28, 192, 64, 1, 0, 1),
    (14, 14, 512, 48, 5, 2, 1),
    (14, 14, 512, 192, 1, 0, 1),
    (7, 7, 832, 256, 1, 0, 1),
    (7, 7, 832, 128, 5, 2, 1),
)
_RESNET: tuple[Pattern, ...] = (
    (56, 56, 64, 64, 3, 1, 1),
    (56, 56, 64, 256, 1, 0, 2),
    (28, 28, 128, 128, 3, 1, 1),
    (28, 28, 128, 512, 1, 0, 2),
    (14, 14, 256, 256, 1, 0, 1),
    (14, 14, 256, 256, 3, 1, 1),
    (14, 14, 256, 1024, 1, 0, 2),
    (7, 7, 512, 512, 1, 0, 1),
    (7, 7, 2048, 512, 1, 3, 2),
)
_SPEAKER: tuple[Pattern, ...] = (
    (700, 161, 1, 64, 5, 1, 2),
    (350, 80, 64, 64, 3, 1, 1),
    (350, 80, 64, 128, 5, 1, 2),
    (175, 40, 128, 128, 3, 1, 1),
    (175, 40, 128, 256, 5, 1, 2),
    (84, 20, 256, 256, 3, 1, 1),
    (84, 20, 256, 512, 5, 1, 2),
    (42, 10, 512, 512, 3, 1, 1),
)
_RESNET_50: tuple[Pattern, ...] = (
    (112, 112, 64, 64, 1, 0, 1),
    (56, 56, 64, 256, 1, 0, 1),
    (56, 56, 256, 64, 1, 0, 1),
    (56, 56, 256, 128, 1, 0, 2),
    (28, 28, 128, 512, 1, 0, 1),
    (28, 28, 512, 128, 1, 0, 1),
    (28, 28, 512, 256, 1, 0, 2),
    (14, 14, 256, 1024, 1, 0, 1),
    (28, 28, 512, 1024, 1, 0, 2),
    (14, 14, 1024, 256, 1, 0, 1),
    (14, 14, 256, 1024, 1, 0, 1),
    (14, 14, 1024, 512, 1, 0, 2),
    (7, 7, 512, 512, 3, 1, 1),
    (7, 7, 512, 2048, 1, 0, 1),
    (14, 14, 1024, 2048, 1, 0, 2),
    (7, 7, 2048, 512, 1, 0, 1),
)

_TRAINING_CONVS = (
    (_TEXT, (16,)),
    (_FACES, (8,)),
    (_VISION, (8, 16)),
    (_INCEPTION, (16,)),
    (_RESNET, (8, 16)),
    (_SPEAKER, (16,)),
    (_RESNET_50, (8, 16)),
)
_SERVER_CONVS = (
    (_TEXT, (1,)),
    (_FACES, (1,)),
    *((patterns, (1, 2)) for patterns in (_VISION, _INCEPTION, _RESNET, _SPEAKER, _RESNET_50)),
)


def _speech(batches: tuple[int, ...]) -> Iterator[Kernel]:
    yield from ((700, 161, 1, n, 32, 20, 5, 0, 0, 2, 2) for n in batches)
    yield from ((341, 79, 32, n, 32, 10, 5, 0, 0, 2, 2) for n in batches)


def _kernels(groups: tuple[tuple[tuple[Pattern, ...], tuple[int, ...]], ...]) -> Iterator[Kernel]:
    for patterns, batches in groups:
        for n in batches:
            for w, h, c, k, side, padding, stride in patterns:
                yield w, h, c, n, k, side, side, padding, padding, stride, stride


def _convs() -> Iterator[tuple[str, Kernel]]:
    sets: dict[str, tuple[Kernel, ...]] = {
        "training": (*_speech((4, 8, 16, 32)), *_kernels(_TRAINING_CONVS)),
        "server": (*_speech((1, 2, 4)), *_kernels(_SERVER_CONVS)),
        # The file's versions leave out the first or the 3 x 3, as one library crashes on it.
        "device": ((151, 40, 1, 1, 32, 20, 5, 8, 8, 8, 2), *_kernels(((_RESNET_50, (1,)),))),
    }
    for name, kernels in sets.items():
        yield from ((name, kernel) for kernel in kernels)


def _gemms() -> Iterator[tuple[str, Gemm]]:
    yield from (("training", gemm) for gemm in _training_gemms())
    yield from (("server", gemm) for gemm in _server_gemms())
    yield from (("device", (*sizes, "")) for sizes in _DEVICE_GEMMS)


def _product(of: str, gemm: Gemm) -> tuple[str, Shape]:
    m, n, k, op = gemm
    name = f"{of}_gemm_{m}x{n}x{k}" + (f"_{op}" if op else "")
    return name, Product(m=m, n=n, k=k, transposed=(op == "ta", op == "tb"))


def _conv(of: str, kernel: Kernel) -> tuple[str, Shape]:
    w, h, c, n, k, s, r, pad_w, pad_h, step_w, step_h = kernel
    step = f"{step_w}" if step_w == step_h else f"{step_w}x{step_h}"
    p, q = positions(h, r, step_h, pad_h), positions(w, s, step_w, pad_w)
    conv = Conv(n=n, m=k, c=c, p=p, q=q, r=r, s=s, stride=(step_h, step_w))
    return f"{of}_conv_{w}x{h}x{c}_n{n}_k{k}_{s}x{r}_s{step}", conv


def layers() -> Layers:
    """Return all kernels: the matrix products of the three sets, then their convolutions."""
    found = [_product(*one) for one in _gemms()] + [_conv(*one) for one in _convs()]
    names = distinct_names(name for name, _ in found)
    return dict(zip(names, (shape for _, shape in found), strict=True))


NETWORK = Network(
    "deepbench",
    (),
    layers,
    "Baidu Research, DeepBench, github.com/baidu-research/DeepBench, code/kernels/gemm_problems.h "
    "and conv_problems.h: the sets for training, inference on a server and on a device",
    kernels=True,
)
