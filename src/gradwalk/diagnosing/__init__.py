"""Questions about a large model: its modules, its memory, its gradients."""
