"""One run: how it is trained, resumed and shared."""
