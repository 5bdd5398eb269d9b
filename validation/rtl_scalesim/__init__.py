"""A systolic array in Verilog that was not written here, and the charge of a fold against it."""
