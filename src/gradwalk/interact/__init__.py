"""A function of the reader's own, run anew with each change of its arguments."""
