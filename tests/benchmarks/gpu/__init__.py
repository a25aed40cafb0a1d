"""What a GPU gives: rollouts, updates, weight hand-over, vector search and learning, in one call.

``make gpu`` runs it and writes one JSON; ``--dry-run`` goes the same way on a CPU at a small size.
"""
