"""Which module each node belongs to, inferred from names and code where nobody watched."""
