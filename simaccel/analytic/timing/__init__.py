"""How long a family takes: engines, tiles, channels, ports and pipes in time (``timeline``)."""
