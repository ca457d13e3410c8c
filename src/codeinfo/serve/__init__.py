"""What only servers need: watching folders, refreshing in the background, the queue of index runs."""
