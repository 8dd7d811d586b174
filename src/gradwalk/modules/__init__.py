"""Which module each node belongs to, as far as names, operations and their order tell."""
