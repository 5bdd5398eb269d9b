"""Rules of mappings: which trees can be executed; `table` has them all."""
