"""The rules by which a mapping's trees can be executed; `table` lists them."""
