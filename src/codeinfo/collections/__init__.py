"""Collections of documents: what they are and where they are listed (`model`), and how they are fetched and packed
(`fetch`)."""
