"""The programs that run gradwalk: plain Python and notebooks, one file per host."""
