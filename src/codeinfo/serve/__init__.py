"""What only servers need: the dispatcher, access, answers being written, watching folders, the queue of index runs."""
