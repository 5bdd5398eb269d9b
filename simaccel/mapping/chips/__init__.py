"""What each of several chips does of a mapping, and what goes over links between them."""
