"""The analysis of data-centric directives: reuse, buffers, bandwidth, energy and time (MAESTRO)."""
