"""Checks of a graph and its gradients, one file per kind of cause."""
