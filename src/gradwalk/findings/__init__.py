"""What may be wrong with a graph and its gradients, and the memory that it holds."""
