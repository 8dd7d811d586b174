"""`GraphWidget`: traits and wiring."""
