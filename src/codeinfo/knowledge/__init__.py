"""What a team knows about its code: memories, patterns, style, metadata, and a card that says whether to proceed."""
