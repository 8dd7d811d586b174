"""Several graphs side by side: which node is which, and stepping through all of them."""
