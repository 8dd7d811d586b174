"""Features that build on the core, one folder each."""
