"""What stays on chip between layers, and published latencies of whole networks."""
