"""Several graphs side by side, and stepping through all of them."""
