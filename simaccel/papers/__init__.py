"""Published analyses as guests: MAESTRO's directives, Orojenesis' bounds, FLAT's exhibits.

They use simaccel as a plug-in would, and nothing else imports them. `entry_points.txt` says what
they add, in the form of an installed package's. Analyses know neither program nor machine; what
runs, reads options and shows tables is in the package `commands` of each.
"""
