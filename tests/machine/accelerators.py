"""Small accelerators for tests: at 1 GHz, every GB/s is one byte per cycle."""

from typing import Any

from hypothesis import strategies as st

from simaccel.hardware import Accelerator

_UNLIMITED: dict[str, dict[str, Any]] = {
    "array": {"rows": 4, "cols": 4, "overlap": "none", "edge_folds": "full"},
    "buffer": {
        "capacity_bytes": "unlimited",
        "read_bytes_per_second": "unlimited",
        "write_bytes_per_second": "unlimited",
        "turn_cycles": 4,
    },
    "noc": {"distribution": {"topology": "unlimited"}, "collection": {"topology": "unlimited"}},
    "sfu": {"lanes": 1, "passes": 3, "latency_cycles": 0},
    "dram": {"bandwidth_bytes_per_second": "unlimited", "batch_bytes": 4},
    "dma": {},
    "compiler": {},
    "energy": dict.fromkeys(
        (
            "mac_pj",
            "sfu_pj_per_element",
            "buffer_pj_per_byte",
            "noc_pj_per_byte",
            "dram_pj_per_byte",
        ),
        1.0,
    ),
}


def accelerator(**sections: dict[str, Any]) -> Accelerator:
    """Give a 4 x 4 array with everything around it unlimited; ``sections`` replace fields."""
    raw = {name: section | sections.get(name, {}) for name, section in _UNLIMITED.items()}
    others = {name: section for name, section in sections.items() if name not in raw}
    assert others.keys() <= {"memories", "cores"}, others
    raw |= others
    return Accelerator.model_validate({"name": "test", "clock_hz": "1 GHz", **raw})


def gigabytes(bytes_per_cycle: int | None) -> str:
    """Write bytes per cycle as the bandwidth that they are at 1 GHz."""
    return "unlimited" if bytes_per_cycle is None else f"{bytes_per_cycle} GB/s"


_RATES = st.sampled_from([1, 2, 3, 8, 32, None])
_LATENCIES = st.sampled_from([0, 1, 5, 17])


@st.composite
def accelerators(draw: st.DrawFn, /, **fixed: dict[str, Any]) -> Accelerator:
    """Draw toy-like accelerators; ``fixed`` holds on to fields of a section."""
    sections: dict[str, dict[str, Any]] = {
        "array": {
            "rows": draw(st.integers(1, 5)),
            "cols": draw(st.integers(1, 5)),
            "count": draw(st.sampled_from([1, 1, 2, 3, 4])),
            "steps_per_cycle": draw(st.sampled_from([1, 1, 1, 0.7, 0.5])),
            "macs_per_cycle": {"bits8": draw(st.sampled_from([1, 1, 2, 3]))},
            "overlap": draw(st.sampled_from(["none", "preload", "stream"])),
            "edge_folds": draw(st.sampled_from(["full", "used"])),
        },
        "buffer": {
            "read_bytes_per_second": gigabytes(draw(_RATES)),
            "write_bytes_per_second": gigabytes(draw(_RATES)),
            "turn_cycles": draw(st.integers(1, 8)),
        },
        "noc": {
            "distribution": draw(_pipes(multicast=st.booleans())),
            "collection": draw(_pipes()),
        },
        "sfu": {
            "lanes": draw(st.integers(1, 8)),
            "passes": draw(st.sampled_from([2, 3])),
            "latency_cycles": draw(_LATENCIES),
        },
        "dram": {
            "bandwidth_bytes_per_second": gigabytes(draw(_RATES)),
            "channels": draw(st.integers(1, 3)),
            "interleave_bytes": draw(st.sampled_from([4, 16, 64])),
            "latency_cycles": draw(_LATENCIES),
            "turnaround_cycles": draw(st.sampled_from([0, 0, 2, 7])),
            "batch_bytes": draw(st.sampled_from([1, 2, 7, 64])),
            "in_flight_bytes": draw(st.sampled_from([1, 8, 4096, "unlimited"])),
        },
        "dma": {"in_queues": draw(st.sampled_from(["per_tensor", "single"]))},
        "compiler": draw(
            st.sampled_from([{}, {"overlap": False}, {"overlap": False, "kernel_start_cycles": 13}])
        ),
    }
    if "memories" not in fixed and draw(st.booleans()):
        sections["memories"] = {"weight": draw(_memories())}
    for name, fields in fixed.items():
        sections[name] = sections.get(name, {}) | fields
    return accelerator(**sections)


@st.composite
def _memories(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a memory for weights alone."""
    return {
        "bandwidth_bytes_per_second": gigabytes(draw(_RATES)),
        "channels": draw(st.integers(1, 2)),
        "interleave_bytes": draw(st.sampled_from([4, 16])),
        "latency_cycles": draw(_LATENCIES),
        "turnaround_cycles": draw(st.sampled_from([0, 3])),
    }


def _pipes(**more: st.SearchStrategy[bool]) -> st.SearchStrategy[dict[str, Any]]:
    topologies = st.sampled_from(["systolic", "tree", "crossbar", "bus", "mesh"])
    links, hops = st.integers(1, 8), st.integers(0, 2)
    limited: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {"topology": topologies, "link_bytes_per_cycle": links, "hop_cycles": hops, **more}
    )
    return limited | st.just({"topology": "unlimited"})


PORTS = {"read_bytes_per_second": "unlimited", "write_bytes_per_second": "unlimited"}
PIPES = {way: {"topology": "unlimited"} for way in ("distribution", "collection")}
DRAM = {"bandwidth_bytes_per_second": "unlimited", "in_flight_bytes": "unlimited"}


def alone(on: Accelerator, **dram: object) -> Accelerator:
    """Return an accelerator with ways that nobody waits for."""
    raw = on.model_dump()
    raw.pop("memories", None)
    raw["buffer"] |= PORTS | {"capacity_bytes": "unlimited"}
    raw["noc"] |= {way: {**raw["noc"][way], **pipe} for way, pipe in PIPES.items()}
    raw["dram"] |= DRAM | dram
    return Accelerator.model_validate(raw)
