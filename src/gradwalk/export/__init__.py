"""Pictures, pages, files and text of what a widget shows."""
