"""Sources: which files belong to an index, what language they are in, and their text with secrets masked."""
