"""Files: YAML read with located faults, outputs written whole or not at all."""
