"""Every dataflow on every accelerator, held against a table made before mapping trees."""
