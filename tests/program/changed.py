"""Programs with something changed, or left out, that lowering would never make."""

from collections.abc import Callable
from dataclasses import replace

from simaccel.program.program import Node, Operator, Program, ProgramLoop, Store


def changed(program: Program, change: Callable[[Node], Node | None]) -> Program:
    """Change the nodes of a program, or leave some out."""

    def body(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        found = []
        for node in nodes:
            made = change(node)
            if isinstance(made, ProgramLoop | Operator):
                made = replace(made, body=body(made.body))
            found += [] if made is None else [made]
        return tuple(found)

    return replace(program, body=body(program.body))


def unstored(node: Node) -> Node | None:
    """Leave out what goes to DRAM."""
    return None if isinstance(node, Store) else node
