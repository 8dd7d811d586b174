"""Follow a training loop from outside: look at a step, and name what went wrong."""
