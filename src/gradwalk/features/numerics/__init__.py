"""`compare_numerics()`: where the numbers of two runs part."""
