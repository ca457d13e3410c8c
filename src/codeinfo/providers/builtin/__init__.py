"""The built-in model: a table of word vectors that ships with the package, and its encoder."""
