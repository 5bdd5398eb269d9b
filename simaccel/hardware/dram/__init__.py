"""DRAM parts: organisation, timings, address maps, and what an access pattern gets from them."""
