"""Vector search: FAISS on the CPU against FAISS on the GPU, exact."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from searchgym.seeding import stream

from .setting import Report, Setting, clean, seconds, skipped

WIDTH, K = 384, 10


def part(setting: Setting) -> Report:
    """Queries per second over random unit vectors."""
    count, asked = (5000, 100) if setting.dry else (1_000_000, 1000)
    draw = stream(0, "vectors")
    base = _unit(draw.standard_normal((count, WIDTH), np.float32))
    queries = _unit(draw.standard_normal((asked, WIDTH), np.float32))
    found: Report = {"vectors": count, "width": WIDTH, "queries": asked, "k": K}
    found["torch, exact"] = by_torch(setting, base, queries)
    clean(setting.device)
    if find_spec("faiss") is None:
        return {**found, "faiss": skipped("faiss is not installed")}
    import faiss

    faiss.omp_set_num_threads(len(os.sched_getaffinity(0)))
    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(base)
    spent = seconds(lambda: flat.search(queries, K), setting.device)
    found["faiss, CPU, exact"] = {"queries_per_s": asked / spent}
    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        found["faiss, GPU"] = skipped("this faiss has no GPU half, or sees no GPU")
        return found
    resources = faiss.StandardGpuResources()
    there = faiss.index_cpu_to_gpu(resources, 0, flat)
    there.search(queries, K)  # a warm-up
    spent = seconds(lambda: there.search(queries, K), setting.device)
    found["faiss, GPU, exact"] = {"queries_per_s": asked / spent}
    return found


def by_torch(setting: Setting, base: Any, queries: Any) -> Report:
    """Exact search by a matrix product, 100 queries at a time."""
    there = torch.from_numpy(base).to(setting.device)
    ask = torch.from_numpy(queries).to(setting.device)

    def run() -> None:
        for part in ask.split(100):
            (part @ there.T).topk(K)

    run()
    return {"queries_per_s": len(queries) / seconds(run, setting.device)}


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
