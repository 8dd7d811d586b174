"""Backward passes: hooks, recorded steps and gradients, seeking."""
