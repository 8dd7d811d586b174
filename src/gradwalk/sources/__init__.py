"""The sources of a drawing: a live graph, a static graph, a saved file."""
