"""Pictures, text and files."""
