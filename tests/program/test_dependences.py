"""What operators wait for on other cores, of programs by hand."""

from __future__ import annotations

from simaccel.mapping.view import TensorView
from simaccel.program.dependences import CoreDependence, dependences
from simaccel.program.program import (
    Load,
    Node,
    Operator,
    Program,
    ProgramLoop,
    Store,
    Tile,
)


def _operator(name: str, reads: str, makes: str, cores: range | None, kind: str = "") -> Operator:
    def tile(tensor: str) -> Tile:
        view = TensorView(
            name=tensor,
            ranks=("m",),
            shape=(4,),
            bytes_per_element=2,
            kind=kind if tensor == reads else "",
        )
        return Tile(name=tensor, view=view, shape=(4,))

    body = (Load(tile=tile(reads)), Store(tile=tile(makes)))
    return Operator(name=name, body=body, cores=cores)


def _found(*body: Node) -> dict[str, tuple[CoreDependence, ...]]:
    return dependences(Program(name="test", body=body))


ONE, TWO = range(1), range(1, 2)


def test_who_reads_what_another_core_makes_waits_for_it() -> None:
    found = _found(_operator("a", "X", "T", ONE), _operator("b", "T", "U", TWO))
    assert found == {"a": (), "b": (CoreDependence("a", now=True),)}


def test_who_writes_what_another_core_reads_or_writes_waits_for_it() -> None:
    found = _found(
        _operator("a", "T", "U", ONE), _operator("b", "X", "T", TWO), _operator("c", "X", "U", TWO)
    )
    assert found["b"] == (CoreDependence("a", now=True),)
    assert found["c"] == (CoreDependence("a", now=True),)


def test_nobody_waits_for_who_is_on_all_of_its_cores() -> None:
    """Engines come to the ends of operators one after the other."""
    a = _operator("a", "X", "T", None)
    assert _found(a, _operator("b", "T", "U", TWO))["b"] == ()
    a = _operator("a", "X", "T", TWO)
    assert _found(a, _operator("b", "T", "U", None))["b"] == (CoreDependence("a", now=True),)


def test_without_places_nobody_waits() -> None:
    found = _found(_operator("a", "X", "T", None), _operator("b", "T", "U", None))
    assert found == {"a": (), "b": ()}


def _layers(*body: Node) -> ProgramLoop:
    return ProgramLoop(rank="layer", trips=3, body=body)


def test_who_reads_what_nobody_in_its_layer_makes_waits_for_the_layer_before() -> None:
    """But for weights; and who writes waits for those that read it in the layer before."""
    found = _found(_layers(_operator("a", "X", "T", ONE), _operator("b", "T", "Y", TWO)))
    before = CoreDependence("b", now=False, common=True)
    assert found == {"a": (before,), "b": (CoreDependence("a", now=True, common=True),)}
    found = _found(_layers(_operator("a", "X", "T", ONE, "weight"), _operator("b", "T", "Y", TWO)))
    assert found["a"] == (before,)  # it reads what a writes again
    found = _found(_layers(_operator("a", "X", "T", ONE, "weight"), _operator("b", "Z", "Y", TWO)))
    assert found["a"] == ()


def test_who_is_behind_layers_waits_for_all_of_them() -> None:
    last = _operator("c", "T", "Z", TWO)
    found = _found(_layers(_operator("a", "X", "T", ONE)), last)
    (one,) = found["c"]
    assert (one, one.needed_rounds(0)) == (CoreDependence("a", now=True, trips=3), 3)
    found = _found(last, _layers(_operator("a", "Z", "T", ONE)))
    (one,) = found["a"]
    assert [one.needed_rounds(ended) for ended in range(3)] == [1, 1, 1]
