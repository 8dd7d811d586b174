"""Callbacks for training libraries. Each module imports its own library."""
