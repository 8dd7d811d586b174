"""`compare()`: graphs side by side, stepped through together; `load()` for both widgets."""
