"""Dataflows written as data-centric directives (MAESTRO): maps, clusters, and what they leave out."""
