"""Which ranks of a folded block play g, m, k and n."""

import numpy as np
import pytest

from simaccel.mapping.view import TensorView
from simaccel.program.folding import folded_shape
from simaccel.program.interpreter import interpret
from simaccel.program.program import Compute, Folds, ProgramError, Tile
from simaccel.program.text import parse_program


def _tile(name: str, *ranks: str) -> Tile:
    shape = (1,) * len(ranks)
    return Tile(
        name=name,
        view=TensorView(name=name, ranks=ranks, shape=shape, bytes_per_element=1),
        shape=shape,
    )


def _command(inputs: tuple[Tile, ...], out: Tile, **sizes: int) -> Compute:
    return Compute(
        out=out,
        inputs=inputs,
        ranks=tuple(sizes),
        shape=tuple(sizes.values()),
        on=Folds("ws"),
    )


def test_ranks_play_by_the_tensors_that_they_are_in() -> None:
    q, k = _tile("Q", "b", "h", "q", "d"), _tile("K", "b", "h", "d", "c")
    s = _tile("S", "b", "h", "q", "c")
    command = _command((q, k), s, b=2, h=3, q=5, d=7, c=11)
    assert folded_shape(command) == (6, 5, 7, 11)
    swapped = _command((k, q), s, b=2, h=3, q=5, d=7, c=11)
    assert folded_shape(swapped) == (6, 11, 7, 5)
    assert command.macs == 6 * 5 * 7 * 11


def test_the_reduction_of_a_convolution_is_all_its_ranks_multiplied() -> None:
    image, weight = _tile("I", "n", "c", "2*p+r", "2*q+s"), _tile("W", "m", "c", "r", "s")
    out = _tile("O", "n", "m", "p", "q")
    command = _command((image, weight), out, n=2, m=16, c=3, p=5, q=7, r=3, s=2)
    assert folded_shape(command) == (1, 2 * 5 * 7, 3 * 3 * 2, 16)


def test_a_rank_of_one_may_be_anywhere() -> None:
    a, b, c = _tile("A", "m", "k", "x"), _tile("B", "k", "n"), _tile("C", "m", "n")
    assert folded_shape(_command((a, b), c, m=2, k=3, n=4, x=1, y=1)) == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"m": 2, "k": 3, "n": 4, "x": 2}, "rank x of size 2 can't be folded: it has to be in two"),
        ({"m": 2, "z": 3}, "rank z of size 3 can't be folded: .* of A, B, C, or in all three"),
    ],
)
def test_a_rank_that_plays_nothing_is_refused(sizes: dict[str, int], message: str) -> None:
    a, b, c = _tile("A", "m", "k", "x"), _tile("B", "k", "n"), _tile("C", "m", "n")
    with pytest.raises(ProgramError, match=message):
        folded_shape(_command((a, b), c, **sizes))


def test_folds_multiply_two_inputs() -> None:
    a, c = _tile("A", "m", "k"), _tile("C", "m")
    with pytest.raises(ProgramError, match="C: folds multiply two inputs, this command has 1"):
        folded_shape(_command((a,), c, m=2, k=3))


CONVOLUTION = """\
program conv
  operator O
    tile I 3x9 x1 of I[c=3,2*p+r=9] 2B
    tile W 4x3x3 x1 of W[m=4,c=3,r=3] 2B
    load I queue 0
    load W queue 1
    loop p 2 from 0 step 2
      tile O 4x2 x1 of O[m=4,p=4] 2B
      compute O = I W over m=4 p=2 c=3 r=3 folds ws 4x2
      store O
"""


def test_a_folded_convolution_is_executed_by_rank() -> None:
    random = np.random.default_rng(0)
    image, weight = random.integers(0, 9, (3, 9)), random.integers(0, 9, (4, 3, 3))
    tensors = {"I": image.astype(float), "W": weight.astype(float), "O": np.full((4, 4), np.nan)}
    made = interpret(parse_program(CONVOLUTION), tensors)["O"]
    windows = np.stack([image[:, 2 * p : 2 * p + 3] for p in range(4)])
    np.testing.assert_array_equal(made, np.einsum("pcr,mcr->mp", windows, weight))
