"""Files: YAML is read with the location of each fault, outputs are written whole or not at all."""
