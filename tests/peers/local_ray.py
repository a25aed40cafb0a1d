"""Ray on this machine, for the tests of frameworks that stand on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ray

from tests.integrations.glue import ROOT

ATTEMPTS = 4


@contextmanager
def cluster(cpus: int) -> Iterator[str]:
    """Its address, while it runs.

    Ray gives its own processes 30 seconds to start, which no setting changes and which a machine
    with much else to do may miss; it is then asked again.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(
                num_cpus=cpus, include_dashboard=False, log_to_driver=False,
                runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
                # workers begun before they are asked for would slow the start, and Ray would kill
                # these small ones where other programs use the machine's memory
                _system_config={
                    "prestart_worker_first_driver": False, "memory_monitor_refresh_ms": 0
                },
            )  # fmt: skip
            break
        except Exception as error:
            ray.shutdown()
            if "timed out" not in str(error) or attempt == ATTEMPTS:
                raise
    try:
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()
