"""Commands of MAESTRO's guest: what they read, run, and print."""
