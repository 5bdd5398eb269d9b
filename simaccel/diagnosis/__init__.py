"""Facts, without text: the limits of runs, what would help, where two accounts differ."""
