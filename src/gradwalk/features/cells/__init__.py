"""`%load_ext gradwalk`: the cells of a notebook run watched."""
