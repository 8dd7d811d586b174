"""Who holds a graph: old graphs that stay alive, named."""
