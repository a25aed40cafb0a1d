"""Ray on this machine, for the tests of frameworks that stand on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ray

from tests.integrations.glue import ROOT

ATTEMPTS = 4
WORKER_SECONDS = 180
"""How long the first worker may take to start."""


@ray.remote
def _nothing() -> None:
    pass


@contextmanager
def cluster(cpus: int) -> Iterator[str]:
    """Its address, while it runs.

    Ray gives its own processes 30 seconds to start, which no setting changes and which a machine
    with much else to do may miss; it is then asked again.

    Raises:
        RuntimeError: no worker starts; without it, whatever needs one would wait for ever.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(
                num_cpus=cpus, include_dashboard=False, log_to_driver=False,
                runtime_env={"env_vars": {"PYTHONPATH": str(ROOT)}},
                # workers begun before they are asked for would slow the start; Ray would kill these
                # small ones where other programs use the machine's memory; and with the niceness
                # that it gives them, 15, they import nothing for minutes where others keep the
                # processors busy
                _system_config={
                    "prestart_worker_first_driver": False, "memory_monitor_refresh_ms": 0,
                    "worker_niceness": 0,
                },
            )  # fmt: skip
            break
        except Exception as error:
            ray.shutdown()
            if "timed out" not in str(error) or attempt == ATTEMPTS:
                raise
    try:
        try:
            ray.get(_nothing.remote(), timeout=WORKER_SECONDS)
        except ray.exceptions.GetTimeoutError as error:
            raise RuntimeError(
                f"Ray started no worker in {WORKER_SECONDS} seconds: see its logs in "
                "/tmp/ray/session_latest/logs, and whether other programs leave it a processor"
            ) from error
        yield ray.get_runtime_context().gcs_address
    finally:
        ray.shutdown()
