"""What only a server needs: calls that can be stopped, answers being written, access."""
