"""The call that made a watched forward pass raise."""
