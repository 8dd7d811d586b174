"""Loops of the program, found as repetitions in the order of the operations."""
