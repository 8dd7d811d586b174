"""The captured graph: torch's nodes, names, what is saved, tensors as plain values."""
