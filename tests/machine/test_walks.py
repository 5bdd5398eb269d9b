"""How tiles become tokens: the walks of the design's FLAT example, and what can't be walked."""

import pytest

from simaccel.machine.instructions import Action, Instruction, TokenStream
from simaccel.machine.walks import make_walks
from simaccel.program.program import ProgramError
from simaccel.program.text import parse_program
from tests.data_files import data_beside
from tests.machine.accelerators import accelerator
from tests.refusals import refusal_of

DATA = data_beside(__file__)

FLAT = """\
program flat
  operator LA
    loop g 4 from 0 step 1
      tile K 1x8x16 x2 of K[g=4,d=8,c=16] 2B
      tile V 1x16x8 x2 of V[g=4,c=16,e=8] 2B
      load K queue 1
      load V queue 2
      loop q 3 from 0 step 5
        tile Q 1x5x8 x3 of Q[g=4,q=16,d=8] 2B
        tile S 1x5x16 x1 of S[g=4,q=16,c=16] 2B
        tile O 1x5x8 x2 of O[g=4,q=16,e=8] 2B
        load Q queue 0
        compute S = Q K over g=1 q=5 d=8 c=16 folds ws
        sfu softmax whole S = S over g=1 q=5 c=16 axis c scale 0.5 of softmax
        compute O = S V over g=1 q=5 c=16 e=8 folds ws
        store O
      loop q 1 from 15 step 1
        tile Q 1x1x8 x3 of Q[g=4,q=16,d=8] 2B
        tile S 1x1x16 x1 of S[g=4,q=16,c=16] 2B
        tile O 1x1x8 x2 of O[g=4,q=16,e=8] 2B
        load Q queue 0
        compute S = Q K over g=1 q=1 d=8 c=16 folds ws
        sfu softmax whole S = S over g=1 q=1 c=16 axis c scale 0.5 of softmax
        compute O = S V over g=1 q=1 c=16 e=8 folds ws
        store O
"""


def _text(op: Instruction) -> str:
    if op.act is Action.LOOP:
        return f"loop {op.trips}"
    if op.command is not None:
        return type(op.command).__name__.lower()
    words = [op.act.name.lower()]
    if op.tokens is not None:
        tokens = op.tokens
        words += [tokens.tile, tokens.kind, f"{tokens.source}>{tokens.target}"]
    if op.n_bytes:
        words.append(f"{op.n_bytes}B")
    return " ".join(words)


def _walks(text: str, in_queues: str = "per_tensor") -> dict[str, list[str]]:
    on = accelerator(dma={"in_queues": in_queues})
    walks = make_walks(parse_program(text), on).cores[0]
    return {engine: [_text(op) for op in steps] for engine, steps in walks.steps.items()}


def test_walks_of_flat() -> None:
    """S stays in its slot from array to SFU and back; Q and O go one way; K and V stay longer."""
    walks = _walks(FLAT)
    for engine, tile, n_bytes in (("dma_in1", "K", 256), ("dma_in2", "V", 256)):
        assert walks[engine] == [
            "loop 4",
            f"claim {tile} free array>{engine} {n_bytes}B",
            "load",
            f"post {tile} ready {engine}>array",
            "end",
            "meet",
        ]
    assert walks["dma_in0"] == [
        *("loop 4", "loop 3", "claim Q free array>dma_in0 80B", "load"),
        *("post Q ready dma_in0>array", "end", "claim Q free array>dma_in0 16B", "load"),
        *("post Q ready dma_in0>array", "end", "meet"),
    ]
    assert walks["sfu"] == [
        *("loop 4", "loop 3", "wait S ready array>sfu", "sfu", "post S ready sfu>array", "end"),
        *("wait S ready array>sfu", "sfu", "post S ready sfu>array", "end", "meet"),
    ]
    assert walks["dma_out"] == [
        "loop 4",
        "loop 3",
        "wait O ready array>dma_out",
        "store",
        "release O free dma_out>array 80B",
        "end",
        "wait O ready array>dma_out",
        "store",
        "release O free dma_out>array 16B",
        "end",
        "meet",
    ]


def test_the_array_claims_what_it_makes_and_releases_what_it_uses_last() -> None:
    """K and V come with the first row block that needs them, and go with the last one."""

    def row_block(rows: int, *, first: bool, last: bool) -> list[str]:
        found = [
            "wait K ready dma_in1>array" * first,
            "wait Q ready dma_in0>array",
            f"claim {rows * 32}B",
            "compute",
            "post S ready array>sfu",
            f"release Q free array>dma_in0 {rows * 16}B",
            "release K free array>dma_in1 256B" * last,
            "wait V ready dma_in2>array" * first,
            f"claim O free dma_out>array {rows * 16}B",
            "wait S ready sfu>array",
            "compute",
            f"release {rows * 32}B",
            "post O ready array>dma_out",
            "release V free array>dma_in2 256B" * last,
        ]
        return [one for one in found if one]

    walk = make_walks(parse_program(FLAT), accelerator()).cores[0].steps["array"]
    array = [_text(op) for op in walk]
    block, last = row_block(5, first=True, last=False), row_block(1, first=False, last=True)
    assert array == ["loop 4", "loop 3", *block, "end", *last, "end", "meet"]
    once = [_text(op) for op in walk if op.within]
    assert once == [one for one in array if "K" in one or "V" in one]


def test_streams_start_with_their_slots_or_with_nothing() -> None:
    tokens = make_walks(parse_program(FLAT), accelerator()).cores[0].tokens
    assert tokens == {
        TokenStream("LA", "K", "free", "array", "dma_in1"): 2,
        TokenStream("LA", "K", "ready", "dma_in1", "array"): 0,
        TokenStream("LA", "V", "free", "array", "dma_in2"): 2,
        TokenStream("LA", "V", "ready", "dma_in2", "array"): 0,
        TokenStream("LA", "Q", "free", "array", "dma_in0"): 3,
        TokenStream("LA", "Q", "ready", "dma_in0", "array"): 0,
        TokenStream("LA", "S", "ready", "array", "sfu"): 0,
        TokenStream("LA", "S", "ready", "sfu", "array"): 0,
        TokenStream("LA", "O", "free", "dma_out", "array"): 2,
        TokenStream("LA", "O", "ready", "array", "dma_out"): 0,
    }


def test_a_single_queue_loads_in_program_order() -> None:
    walk = _walks(FLAT, "single")["dma_in"]
    posts = [step for step in walk if step.startswith(("post", "loop", "end"))]
    assert posts == [
        *("loop 4", "post K ready dma_in>array", "post V ready dma_in>array", "loop 3"),
        *("post Q ready dma_in>array", "end", "post Q ready dma_in>array", "end"),
    ]


def test_software_pipelining_peels_the_first_and_the_last_iteration() -> None:
    """4 iterations with L ahead: L, then 3 times (L of the next, A of this one), then A."""
    text = """\
program p
  operator LA
    loop q 4 from 0 step 5
      tile S 5x16 x2 of S[q=20,c=16] 2B
      sfu softmax statistics S = S over q=5 c=16 axis c of softmax
      compute S = S S over g=1 q=5 c=16 e=8 folds ws
      sfu softmax whole S = S over q=5 c=16 axis c of softmax
      store S
""".replace("step 5\n", "step 5 ahead 2\n")
    walks = _walks(text)
    claim, release = "claim S free dma_out>sfu 160B", "release S free dma_out>sfu 160B"
    first = [claim, "sfu", "post S ready sfu>array"]
    later = ["wait S ready array>sfu", "sfu", "post S ready sfu>dma_out"]
    assert walks["sfu"] == [*first, "loop 3", *first, *later, "end", *later, "meet"]
    product = ["wait S ready sfu>array", "compute", "post S ready array>sfu"]
    assert walks["array"] == [*product, "loop 3", *product, "end", "meet"]
    store = ["wait S ready sfu>dma_out", "store", release]
    assert walks["dma_out"] == ["loop 3", *store, "end", *store, "meet"]


def test_a_tile_that_goes_round_in_a_loop_comes_back_to_its_first_engine() -> None:
    """Z: product, then rescaled and added to in each iteration, then divided and stored."""
    text = """\
program p
  operator online
    tile Z 4x4 x1 of Z[q=4,e=4] 2B
    compute Z = Z Z over g=1 q=4 c=4 e=4 folds ws
    loop c 3 from 0 step 1
      sfu softmax rescale Z = Z over q=4 e=4 of softmax
      compute Z += Z Z over g=1 q=4 c=4 e=4 folds ws
    sfu softmax divide Z = Z over q=4 e=4 of softmax
    store Z
"""
    walks = _walks(text)
    assert walks["sfu"] == [
        *("loop 3", "wait Z ready array>sfu", "sfu", "post Z ready sfu>array", "end"),
        *("wait Z ready array>sfu", "sfu", "post Z ready sfu>dma_out", "meet"),
    ]
    assert walks["array"] == [
        *("claim Z free dma_out>array 32B", "compute", "post Z ready array>sfu", "loop 3"),
        *("wait Z ready sfu>array", "compute", "post Z ready array>sfu", "end", "meet"),
    ]


def test_engines_without_work_only_meet() -> None:
    text = """\
program p
  operator only
    tile X 4 x1 of X[c=4] 2B
    sfu softmax whole X = X over c=4 axis c of softmax
"""
    walks = _walks(text)
    assert walks.pop("sfu") == ["claim 8B", "sfu", "release 8B", "meet"]
    assert all(walk == ["meet"] for walk in walks.values())


@pytest.mark.parametrize(("body", "message"), DATA["refused"])
def test_what_one_stream_of_tokens_can_t_describe_is_refused(body: str, message: str) -> None:
    program = parse_program(f"program p\n  operator op\n{body}")
    assert refusal_of(make_walks, program, accelerator(), error=ProgramError) == message
