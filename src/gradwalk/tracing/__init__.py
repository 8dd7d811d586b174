"""`watch()`: what the forward pass did, and the graph annotated with it."""
