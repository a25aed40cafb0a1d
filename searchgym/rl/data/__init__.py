"""Which tasks come next, and which groups are trained on."""
