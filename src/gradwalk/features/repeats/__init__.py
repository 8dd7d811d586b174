"""Loops, found as repetitions in the order of the operations, and parts of large graphs."""
