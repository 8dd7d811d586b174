"""`compare`: several graphs side by side."""
