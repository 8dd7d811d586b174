"""The sentences that explain: what a node is, why a gradient is not there."""
