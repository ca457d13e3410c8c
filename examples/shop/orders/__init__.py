"""Orders: what was bought, at which price, and whether it was paid."""
