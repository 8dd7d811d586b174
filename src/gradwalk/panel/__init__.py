"""The details of one node, as the panel shows them."""
