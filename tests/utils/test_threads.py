"""Small work has one thread, and what had more has them again."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from searchgym.utils.hardware import one_blas_thread, one_thread, side_by_side


@pytest.fixture(autouse=True)
def three() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    with threadpool_limits(limits=3, user_api="blas"):
        yield None
    torch.set_num_threads(before)


def blas() -> int:
    """Threads of NumPy's BLAS; SciPy brings another."""
    (found,) = (
        part["num_threads"]
        for part in threadpool_info()
        if part["user_api"] == "blas" and "numpy" in part["filepath"]
    )
    return int(found)


def test_one_thread_is_given_back_after_an_error() -> None:
    def fail() -> None:
        with one_thread() as threads:
            assert (threads, torch.get_num_threads()) == (3, 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert torch.get_num_threads() == 3


def test_passes_run_at_once_in_one_thread_each() -> None:
    meeting = threading.Barrier(3)

    def work(x: int) -> tuple[int, int]:
        meeting.wait(10)  # all three are there at once
        return x * x, torch.get_num_threads()

    with side_by_side(6) as mapped:
        assert list(mapped(work, range(6))) == [(x * x, 1) for x in range(6)]
    assert torch.get_num_threads() == 3
    with side_by_side(1) as mapped:
        assert mapped is map


def test_what_has_not_begun_is_left_out_when_interrupted() -> None:
    begun = []

    def work(x: int) -> int:
        begun.append(x)
        time.sleep(0.05)
        return x

    def interrupted() -> None:
        with side_by_side(100) as mapped:
            for x in mapped(work, range(100)):
                if x == 2:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(begun) < 12


def test_blas_has_one_thread_meanwhile_whoever_asks_besides() -> None:
    def asked() -> int:
        with one_blas_thread():
            return blas()

    with one_blas_thread():
        assert blas() == 1
        with one_blas_thread():
            assert blas() == 1
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(asked).result() == 1
        assert blas() == 1
    assert (blas(), torch.get_num_threads()) == (3, 3)
