"""Accelerators as commands read them, with warnings for what their files leave out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from simaccel.hardware import Accelerator


def read_accelerator(
    name: str, overrides: Sequence[str] = (), *, allow_unmodelled: bool = False
) -> Accelerator:
    """Load an accelerator that something is to run on.

    Raises:
        InputError: it can't be read, or more of it is left out than is allowed.

    """
    from simaccel.importers.accelerators import load_accelerator

    accelerator = load_accelerator(name, overrides, allow_unmodelled=allow_unmodelled)
    accelerator.account.require_modelled()
    return accelerator


def ask_for_precision(accelerator: Accelerator, name: str) -> None:
    """Warn once about a user's accelerator without default number formats."""
    from simaccel.hardware.load import accelerator_files

    context = click.get_current_context(silent=True)
    if context is None or accelerator.precision.by_class or name in accelerator_files():
        return
    warned = context.meta.setdefault("simaccel.asked_for_precision", set())
    if name not in warned:
        warned.add(name)
        click.echo(
            f"warning: {name}: precision: got nothing; elements have 2 bytes where the workload "
            "doesn't say it: add a line such as precision: {weights: int8, activations: int8, "
            "cache: int8}, or ask for --precision",
            err=True,
        )
