"""`compare()`: graphs side by side, stepped through together."""
