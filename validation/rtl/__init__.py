"""A systolic array in SystemVerilog, and the machine held against it."""
