"""Plan a training step without weights: its memory, FLOPs and checkpoints."""
