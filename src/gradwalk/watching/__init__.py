"""`watch`: what the forward pass tells."""
