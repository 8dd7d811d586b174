"""What may be wrong with a graph and its gradients, one file per kind of finding."""
