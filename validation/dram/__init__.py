"""DRAM: `simaccel dram` against DRAMsim3 and Ramulator 2.1."""
