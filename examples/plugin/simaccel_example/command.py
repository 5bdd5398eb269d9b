"""The command `simaccel macs`: the multiply-accumulates of each operator of a workload."""

import click

from simaccel import load_workload


@click.command()
@click.argument("name", metavar="NAME|FILE")
def macs(name: str) -> None:
    """Print the MACs of each operator of a workload.

    Errors of simaccel end it with a line, as they end simaccel's own commands.
    """
    for operator in load_workload(name).operators:
        click.echo(f"{operator.name} {operator.macs}")
