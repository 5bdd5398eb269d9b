"""The command line: thin click commands over experiments and reports.

Functions that read or check options raise an `InputError` with all faults at once; their docstrings
name other errors only.
"""

from simaccel.cli.app import main

__all__ = ["main"]
