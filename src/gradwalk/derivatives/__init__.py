"""Derivative formulas of operations, as Python to read and run."""
