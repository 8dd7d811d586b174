"""The static graphs of torch.export and torch.fx in a widget."""
