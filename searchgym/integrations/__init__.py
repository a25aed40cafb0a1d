"""Adapters by which other projects' trainers, evaluators and retrieval toolkits use SearchGym.

One module per project, and none imports its project before it is used. They stand on the public
:class:`~searchgym.envs.session.Session` and
:class:`~searchgym.policies.causal_lm.ExternalPolicy`, and a user imports the module by name::

    from searchgym.integrations import trl

==================  ==============================================================
``trl``             TRL's ``GRPOTrainer``, by ``environment_factory`` or ``rollout_func``
``verl``            verl's agent loop
``verifiers``       tasksets and environments of verifiers
``openenv``         a server and a client of OpenEnv
``skyrl``           text environments of skyrl-gym
``sb3``             vector environments of Stable-Baselines3
``minari``          datasets of episodes in Minari's format
``retrievers``      retrievers of LangChain, LlamaIndex and PyTerrier
``inspect``         tasks of Inspect
==================  ==============================================================
"""
