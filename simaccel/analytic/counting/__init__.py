"""What a family moves and computes, exactly, and the space that its tiles take (``counts``)."""
