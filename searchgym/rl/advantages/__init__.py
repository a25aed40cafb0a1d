"""Advantage estimators; of those that compare groups a pure function, too.

Functions take rewards (B,), one per trajectory, with ``group`` (B,) naming each one's task; or
(B, T), one per token, under a mask (see ``ops``). Advantages are detached and have the shape of
the rewards unless said otherwise; ``ops.spread`` makes (B, T) of (B,). A reward of NaN cannot be
scored: the trajectory is left out and gets 0, as does a group of one or of equal rewards.

A class with a line ``registered = "name"`` is what a recipe calls by that name.
"""
