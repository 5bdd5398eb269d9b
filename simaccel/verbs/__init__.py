"""Functions to call from Python, which the command line calls, too: `simaccel.simulate` and others.

Each takes names or objects, and returns an object that a notebook displays. Import them from
`simaccel`, which loads each module on first use.
"""
