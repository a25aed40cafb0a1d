"""Objects over the pure functions in ``rl.advantages``."""
