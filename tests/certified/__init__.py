"""Checks of environments by programs of others; ``make certify`` runs them."""
