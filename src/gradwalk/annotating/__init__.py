"""The captured graph with what is known beyond autograd: constants, cuts, modules."""
