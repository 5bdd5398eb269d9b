"""Published analyses as guests: MAESTRO's directives, Orojenesis' bounds.

They use the core as a plug-in would, and nothing below commands and studies imports them.
`entry_points.txt` says what they add, in the form of an installed package's.
"""
