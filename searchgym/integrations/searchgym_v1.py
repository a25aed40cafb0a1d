"""The plug-in of verifiers, a top-level module of the wheel: ids of plug-ins have no dots."""

from searchgym.integrations.verifiers import (
    SearchGymEnv,
    SearchGymEnvConfig,
    SearchGymHarness,
    SearchGymHarnessConfig,
    SearchGymTaskset,
    SearchGymTasksetConfig,
)

__all__ = [  # without it, verifiers refuses the module
    "SearchGymEnv",
    "SearchGymEnvConfig",
    "SearchGymHarness",
    "SearchGymHarnessConfig",
    "SearchGymTaskset",
    "SearchGymTasksetConfig",
]
