"""DRAM parts: organisation, timings, address maps, and the throughput of access patterns."""
