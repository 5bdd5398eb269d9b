"""ResNeXt50 and UNet as descriptions: layers from their papers, dataflows of MAESTRO's Table 3.

ResNeXt50 (32x4d): Xie et al., "Aggregated Residual Transformations for Deep Neural Networks"
(CVPR 2017), Table 1, with the stride in the 3x3 convolutions and projections as shortcuts, as its
code has them; padding is part of the input. UNet: Ronneberger et al., "U-Net" (MICCAI 2015),
Fig. 1: 572 x 572, nothing padded. Its 2x2 up-convolutions have a stride of 2, so that each output
has one input: four 1x1 convolutions, one for each of the four places, written as a TRCONV with
four times the channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

TABLE_3: Mapping[str, str] = {
    "C-P": "TemporalMap(1,1) K; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X; "
    "TemporalMap(Sz(R),Sz(R)) R; TemporalMap(Sz(S),Sz(S)) S; SpatialMap(1,1) C",
    "X-P": "TemporalMap(1,1) K; TemporalMap(1,1) C; TemporalMap(Sz(R),Sz(R)) R; "
    "TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; SpatialMap(Sz(S),1) X",
    "YX-P": "TemporalMap(1,1) K; SpatialMap(Sz(R),1) Y; TemporalMap(8+Sz(S)-1,8) X; "
    "TemporalMap(1,1) C; TemporalMap(Sz(R),Sz(R)) R; TemporalMap(Sz(S),Sz(S)) S; Cluster(8,P); "
    "SpatialMap(Sz(S),1) X",
    "YR-P": "TemporalMap(2,2) C; TemporalMap(2,2) K; SpatialMap(Sz(R),1) Y; "
    "TemporalMap(Sz(S),1) X; TemporalMap(Sz(R),Sz(R)) R; TemporalMap(Sz(S),Sz(S)) S; "
    "Cluster(Sz(R),P); SpatialMap(1,1) Y; SpatialMap(1,1) R",
    "KC-P": "SpatialMap(1,1) K; TemporalMap(64,64) C; TemporalMap(Sz(R),Sz(R)) R; "
    "TemporalMap(Sz(S),Sz(S)) S; TemporalMap(Sz(R),1) Y; TemporalMap(Sz(S),1) X; Cluster(64,P); "
    "SpatialMap(1,1) C",
}
_GROUPS = "TemporalMap(1,1) G; "
"""In front of each dataflow where a convolution has groups."""
_CARDINALITY = 32


@dataclass(frozen=True)
class Described:
    """A layer: its name, kind, K and C (of a group), filter, input rows and columns, stride."""

    name: str
    kind: str
    k: int
    c: int
    filter: int
    rows: int
    stride: int = 1
    groups: int = 1

    def row(self, network: str, directives: str) -> dict[str, str]:
        """Return it as a row of a published run has it."""
        sizes = {"K": self.k, "C": self.c, "R": self.filter, "S": self.filter}
        sizes |= {"Y": self.rows, "X": self.rows}
        is_grouped = self.kind == "NGCONV"
        return {
            "network": network,
            "layer": self.name,
            "layer_type": self.kind,
            "N": "",
            "M": "",
            "G": str(self.groups) if is_grouped else "",
            **{dim: str(size) for dim, size in sizes.items()},
            "stride_y": str(self.stride),
            "stride_x": str(self.stride),
            "directives": (_GROUPS if is_grouped else "") + directives,
        }


def resnext50() -> Iterator[Described]:
    """Yield the layers of ResNeXt50: those that sum over channels; no pooling."""
    yield Described("CONV1", "CONV", 64, 3, 7, 224 + 6, 2)
    stages = ((2, 128, 56, 3), (3, 256, 28, 4), (4, 512, 14, 6), (5, 1024, 7, 3))
    before = 64
    for stage, width, rows, blocks in stages:
        for block in range(1, blocks + 1):
            name, stride = f"CONV{stage}_{block}", 2 if stage > 2 and block == 1 else 1
            inside = width // _CARDINALITY
            yield Described(f"{name}_1", "CONV", width, before, 1, rows * stride)
            padded = rows * stride + 2
            yield Described(f"{name}_2", "NGCONV", inside, inside, 3, padded, stride, _CARDINALITY)
            yield Described(f"{name}_3", "CONV", 2 * width, width, 1, rows)
            if block == 1:
                yield Described(f"{name}_P", "CONV", 2 * width, before, 1, rows * stride, stride)
            before = 2 * width
    yield Described("FC1000", "CONV", 1000, before, 1, 1)


def unet() -> Iterator[Described]:
    """Yield the layers of UNet."""
    channels, rows = 1, 572
    for level in range(1, 6):
        width = 32 * 2**level
        yield Described(f"CONV{level}_1", "CONV", width, channels, 3, rows)
        yield Described(f"CONV{level}_2", "CONV", width, width, 3, rows - 2)
        channels, rows = width, (rows - 4) // 2
    rows *= 2
    for level in range(4, 0, -1):
        width = 32 * 2**level
        yield Described(f"UPCONV{level}", "TRCONV", 4 * width, channels, 1, rows)
        rows *= 2
        yield Described(f"CONV{level}_3", "CONV", width, 2 * width, 3, rows)
        yield Described(f"CONV{level}_4", "CONV", width, width, 3, rows - 2)
        channels, rows = width, rows - 4
    yield Described("CONV1_5", "CONV", 2, channels, 1, rows)


NETWORKS = {"ResNeXt50": resnext50, "UNet": unet}


def described_rows(network: str) -> Iterator[dict[str, str]]:
    """Yield a row for each layer and dataflow of a network."""
    for name, directives in TABLE_3.items():
        for layer in NETWORKS[network]():
            yield layer.row(network, directives) | {"mapping_name": name}
