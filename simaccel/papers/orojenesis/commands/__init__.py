"""The command `bound` and its function in Python: what they read and print."""
