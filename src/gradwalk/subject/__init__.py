"""What can be shown: a live graph, a static program or a saved file, behind one interface."""
