"""Record the program's own backward passes under `watch()`."""
