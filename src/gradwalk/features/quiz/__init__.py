"""The quiz: the reader predicts numbers of the picture before they are shown."""
