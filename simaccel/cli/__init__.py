"""The command line: thin click commands over experiments and reports."""

from simaccel.cli.app import main

__all__ = ["main"]
