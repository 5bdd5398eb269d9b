"""The closed form: what a mapping costs, without running it."""
