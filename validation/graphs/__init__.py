"""Random graphs and trees: what is run is what the graph says."""
