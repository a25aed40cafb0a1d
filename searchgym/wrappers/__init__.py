"""Wrappers around an environment. Candidate actions are another: ``sg.CandidateActions``."""

from ..envs.curriculum import CurriculumWrapper, Recorded, VectorCurriculumWrapper

__all__ = ["CurriculumWrapper", "Recorded", "VectorCurriculumWrapper"]
