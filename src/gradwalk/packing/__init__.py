"""The wire model as it travels: the same values in columns, a few bytes per node."""
