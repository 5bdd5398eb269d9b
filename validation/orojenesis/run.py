"""Write all exhibits: `python -m validation.orojenesis.run`; fails where a curve differs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from simaccel.analytic.floor.floor import pebbling_bytes
from simaccel.papers.orojenesis.single import Mapspace
from simaccel.workload import bmm, conv2d, gbmm, gemm
from validation.orojenesis import exhibits, template
from validation.orojenesis.exhibits import bound_of
from validation.orojenesis.pictures import (
    draw_chains,
    draw_mountains,
    draw_shares,
    draw_singles,
)

HERE = Path(__file__).parent
MIB = 2**20


def main() -> None:
    """Compare, draw and write the tables."""
    _reference()
    _singles()
    _chains()


def _curve(name: str) -> list[tuple[int, int]]:
    lines = (HERE / "data" / f"{name}.csv").read_text().splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    return [(int(row[0]), int(row[1])) for row in rows[1:]]


def _write(name: str, rows: list[dict[str, object]]) -> None:
    with (HERE / name).open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _reference() -> None:
    """Compare every curve of the public tool with ours, point by point."""
    curves: dict[str, list[tuple[int, int]]] = {}
    for path in sorted((HERE / "data").glob("gemm_*.csv")):
        m, k, n = (int(part[1:]) for part in path.stem.split("_")[1:4])
        space = Mapspace(bypass=path.stem.endswith("bypass"))
        workload = gemm(m=m, k=k, n=n, bytes_per_element=1)
        curves[path.stem] = bound_of(workload, space).front.points()
    heads: dict[str, Any] = {"h": 32, "m": 4096, "k": 128, "n": 4096, "bytes_per_element": 1}
    curves["bmm_H32_M4096_K128_N4096"] = bound_of(bmm(**heads)).front.points()
    shared = bound_of(gbmm(g=1, **heads))
    curves["gbmm_G1_H32_M4096_K128_N4096"] = shared.front.points()
    steps: dict[str, dict[str, Any]] = {
        "r1s1": {},
        "r3s3": {},
        "r3s3_stride2": {"stride": 2},
        "r3s3_dil2": {"dilation": 2},
    }
    for name, more in steps.items():
        r = int(name[1])
        workload = conv2d(m=64, c=64, p=16, q=16, r=r, s=r, bytes_per_element=1, **more)
        for suffix, halo in (
            ("replica_default", "tool"),
            ("replica_noextrap", "tool-last"),
            ("exact_halo", "exact"),
        ):
            curves[f"conv_{name}_{suffix}"] = bound_of(workload, Mapspace(halo=halo)).front.points()  # type: ignore[arg-type]
    for name in ("conv_r1s1", "conv_r3s3"):
        curves[name] = curves[f"{name}_replica_default"]
    small = conv2d(m=4, c=4, p=16, q=16, r=3, s=3, bytes_per_element=1)
    curves["conv_r3s3_P16_C4_K4"] = bound_of(small, Mapspace(halo="tool")).front.points()
    curves["fused_mha_flat_exhaustive"] = template.flat()
    curves["fused_mha_flash_exhaustive"] = template.flash()
    pair = exhibits.ffn()
    even = exhibits.unfused(pair, ("mm0", "mm1")).points()
    curves["unfused_ffn"] = [(room, moved // 2) for room, moved in even]
    rows: list[dict[str, object]] = [
        {"curve": name, "points": len(points), "equal": points == _curve(name)}
        for name, points in curves.items()
    ]
    _write("reference.csv", rows)
    different = [row["curve"] for row in rows if not row["equal"]]
    if different:
        raise SystemExit(f"other points than the public tool's: {different}")


def _singles() -> None:
    gemms, convs = exhibits.gemms(), exhibits.convs()
    batched, grouped = exhibits.batched(), exhibits.grouped()
    draw_singles("fig_10.png", "GEMMs (figure 10)", gemms)
    draw_shares("fig_11.png", gemms)
    draw_singles("fig_12.png", "convolutions (figure 12)", convs)
    draw_singles("fig_13.png", "BMMs by heads (figure 13)", batched)
    draw_singles("fig_14.png", "grouped BMMs by groups (figure 14)", grouped)
    rows: list[dict[str, object]] = []
    for figure, bounds in (("10", gemms), ("12", convs), ("13", batched), ("14", grouped)):
        for name, bound in bounds.items():
            room, moved = bound.front.largest
            middle = bound.front.find_point(65536)
            assert middle is not None
            rows.append(
                {
                    "figure": figure,
                    "einsum": name,
                    "points": len(bound.front),
                    "mappings": bound.mappings,
                    "effectual_buffer_bytes": room,
                    "of_all_operands": round(room / bound.problem.compulsory_bytes, 4),
                    "least_bytes": moved,
                    "bytes_at_64_KiB": int(bound.front.accesses[middle]),
                    "proven_at_64_KiB": max(
                        bound.problem.compulsory_bytes, pebbling_bytes(bound.problem, 65536)
                    ),
                }
            )
    _write("singles.csv", rows)


def _chains() -> None:
    chains = exhibits.chains()
    draw_chains(
        "fig_18.png",
        "32k_4k_16k and 32k_16k_4k (figure 18)",
        chains,
        {
            "ffn unfused": "unfused",
            "ffn untiled": "untiled",
            "ffn full": "full rows",
            "ffn tiled-kn": "tiled",
        },
    )
    draw_chains(
        "fig_20.png",
        "attention of GPT-3-6.7b (figure 20)",
        chains,
        {"mha unfused": "unfused", "mha flat": "FLAT", "mha flash": "FlashAttention"},
    )
    draw_chains(
        "fig_21.png",
        "six einsums (figure 21)",
        chains,
        {"six unfused": "unfused", "six in one": "one chain", "six segmented": "segmented"},
    )
    draw_chains(
        "fig_22.png",
        "a block (figure 22)",
        chains,
        {"block unfused": "unfused", "block segmented": "segmented"},
    )
    macs = exhibits.six_macs()
    mountains = {
        "unfused": exhibits.mountain(chains.fronts["six unfused"], macs),
        "fused": exhibits.mountain(chains.fronts["six segmented"], macs),
    }
    draw_mountains("fig_23.png", mountains)
    rows: list[dict[str, object]] = []
    for name, front in chains.fronts.items():
        for mib in (1, 8, 10, 16, 32, 50, 64, 256, 320):
            number = front.find_point(mib * MIB)
            moved = "" if number is None else int(front.accesses[number])
            rows.append({"chain": name, "buffer_mib": mib, "bytes": moved})
        room, least = front.points()[-1]
        rows.append({"chain": name, "buffer_mib": round(room / MIB, 3), "bytes": least})
    for name, mountain in mountains.items():
        share, speed = mountain.best
        rows.append({"chain": f"die, {name}", "buffer_mib": round(share, 3), "bytes": round(speed)})
    right = template.flash(charged=template.BATCH)
    for label, points in (("tool's flash", template.flash()), ("flash, K and V each", right)):
        for room, moved in points[-4:]:
            rows.append({"chain": label, "buffer_mib": round(room / MIB, 3), "bytes": 2 * moved})
    _write("chains.csv", rows)


if __name__ == "__main__":
    main()
