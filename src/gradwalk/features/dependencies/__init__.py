"""Which rows of which inputs each row of an output depends on."""
