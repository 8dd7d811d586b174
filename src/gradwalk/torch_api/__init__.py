"""Every private name of torch that gradwalk reads."""
