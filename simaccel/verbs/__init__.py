"""What one calls from Python, and what the command line calls: `simaccel.simulate` and the others.

Each takes names or objects, and returns an object that a notebook shows. Import them from
`simaccel`, which loads a module when its name is used.
"""
