"""The plug-in of verifiers, a top-level module of the wheel: ids of plug-ins have no dots."""

from searchgym.integrations.verifiers import SearchGymEnv as SearchGymEnv
from searchgym.integrations.verifiers import SearchGymEnvConfig as SearchGymEnvConfig
from searchgym.integrations.verifiers import SearchGymHarness as SearchGymHarness
from searchgym.integrations.verifiers import SearchGymHarnessConfig as SearchGymHarnessConfig
from searchgym.integrations.verifiers import SearchGymTaskset as SearchGymTaskset
from searchgym.integrations.verifiers import SearchGymTasksetConfig as SearchGymTasksetConfig
