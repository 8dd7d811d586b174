"""One graph from the files of several ranks."""
