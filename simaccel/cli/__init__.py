"""The command line: thin click commands over experiments and reports.

Whoever reads or checks what was given raises an `InputError` that names all that is wrong with it;
docstrings name other errors only.
"""

from simaccel.cli.app import main

__all__ = ["main"]
