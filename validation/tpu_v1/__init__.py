"""TPU v1: its performance counters beside the machine's."""
