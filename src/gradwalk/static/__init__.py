"""The static graphs of torch.export and torch.fx."""
