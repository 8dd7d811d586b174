"""Match the nodes of one graph to those of another."""
