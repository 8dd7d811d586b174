"""Experiments on the graph that is there: other gradients at an edge, where a gradient is from."""
