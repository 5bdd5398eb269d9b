"""Ruby's exhibits, from our search."""
