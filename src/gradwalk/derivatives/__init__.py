"""The derivative behind each operation, as Python that can be read and run."""
