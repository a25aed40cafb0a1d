"""Wrappers around an environment. Candidate actions are another: ``sg.CandidateActions``."""

from ..envs.curriculum import CurriculumWrapper, VectorCurriculumWrapper

__all__ = ["CurriculumWrapper", "VectorCurriculumWrapper"]
