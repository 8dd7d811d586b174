"""Nodes that open: compiled code, and the calls of a custom Function's backward."""
