"""What the forward pass was seen to do: `watch`, and the captured graph with what it tells."""
