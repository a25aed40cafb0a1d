"""Reinforcement learning of search agents.

``advantages`` from rewards, ``losses`` from advantages, ``kernels`` what both are made of: pure
functions of tensors for any policy, one file per method, each folder's docstring is its index. The
other modules train the candidate agent.
"""
