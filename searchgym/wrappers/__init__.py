"""Wrappers: a curriculum around an environment, and numbers for libraries that know no text."""

from ..envs.curriculum import CurriculumWrapper, VectorCurriculumWrapper
from .candidates import CandidateActions
from .menu import Observation
from .vector_candidates import VectorCandidateActions

__all__ = [
    "CandidateActions",
    "CurriculumWrapper",
    "Observation",
    "VectorCandidateActions",
    "VectorCurriculumWrapper",
]
