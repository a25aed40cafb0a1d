"""Reinforcement learning of search agents.

``trainer`` and ``recipe`` train a language model by a method; ``minimal`` is GRPO in one file.
``advantages``, ``losses``, ``signals``, ``rewards``, ``rollouts``, ``data`` and ``schedules`` hold
one method a file, ``critics`` value models, ``ops`` the functions of tensors they are made of,
``slots`` what passes between them. ``candidate`` trains the agent that chooses among candidate
actions.
"""
