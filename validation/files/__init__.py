"""Files of other tools: what becomes of each, with an independent count."""
