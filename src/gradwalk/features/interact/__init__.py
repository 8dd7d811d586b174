"""`interact()`: controls for the arguments of a function, and its graph."""
