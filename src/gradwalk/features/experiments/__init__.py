"""Experiments with the gradients of a graph: `what_if()`, `contributions()`, `check()`."""
