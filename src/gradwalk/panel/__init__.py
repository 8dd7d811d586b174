"""What the panel shows of one node."""
