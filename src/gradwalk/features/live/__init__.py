"""Pages whose numbers can be changed: a recorded program that the page computes again."""
