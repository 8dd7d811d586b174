"""`GraphWidget` and `load()`: traits and wiring."""
