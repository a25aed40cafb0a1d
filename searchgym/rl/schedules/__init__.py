"""Coefficients by step: objects of the slot ``schedule``.

A recipe reads ``"lr"`` (a factor on the learning rate), each loss's name (``"policy"``, ``"kl"``,
``"entropy"`` …; replaces its weight), ``"w_<signal>"``, and what its parts declare in ``reads``. It
refuses other names, which would change nothing.
"""
