"""Checkpointed regions: their boxes, and the memory that they save."""
