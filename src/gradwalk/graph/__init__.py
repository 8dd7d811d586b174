"""The captured networkx graph: capture, names, symbols."""
