"""Explanations: what a node is, and why a tensor has no gradient."""
