"""Rollouts that go on while the model is trained: admission, a clock to try it, real processes."""
