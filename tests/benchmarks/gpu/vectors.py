"""Vector search: FAISS on the CPU against FAISS on the GPU, exact and by inverted lists (IVF)."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from searchgym.seeding import stream

from .setting import Report, Setting, clean, seconds, skipped

WIDTH, K, PROBES = 384, 10, 16


def part(setting: Setting) -> Report:
    """Queries per second over random unit vectors, and the share of the true neighbours that IVF
    finds."""
    count, asked, lists = (5000, 100, 32) if setting.dry else (1_000_000, 1000, 1024)
    draw = stream(0, "vectors")
    base = _unit(draw.standard_normal((count, WIDTH), np.float32))
    queries = _unit(draw.standard_normal((asked, WIDTH), np.float32))
    found: Report = {"vectors": count, "width": WIDTH, "queries": asked, "k": K,
                     "lists": lists, "probes": PROBES}  # fmt: skip
    found["torch, exact"] = by_torch(setting, base, queries)
    clean(setting.device)
    if find_spec("faiss") is None:
        return {**found, "faiss": skipped("faiss is not installed")}
    import faiss

    faiss.omp_set_num_threads(len(os.sched_getaffinity(0)))
    flat = faiss.IndexFlatIP(WIDTH)
    flat.add(base)
    truth: dict[str, Any] = {}

    def exact(index: Any) -> Callable[[], None]:
        return lambda: truth.update(ids=index.search(queries, K)[1])

    spent = seconds(exact(flat), setting.device)
    found["faiss, CPU, exact"] = {"queries_per_s": asked / spent}
    right = truth["ids"]
    ivf = faiss.IndexIVFFlat(faiss.IndexFlatIP(WIDTH), WIDTH, lists, faiss.METRIC_INNER_PRODUCT)
    ivf.nprobe = PROBES
    sample = base[: 64 * lists]
    found["faiss, CPU, training"] = {"seconds": seconds(lambda: ivf.train(sample), setting.device)}
    ivf.add(base)
    spent = seconds(exact(ivf), setting.device)
    found["faiss, CPU, IVF"] = {"queries_per_s": asked / spent, "recall": recall(truth, right)}
    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        found["faiss, GPU"] = skipped("this faiss has no GPU half, or sees no GPU")
        return found
    resources = faiss.StandardGpuResources()
    for name, index in (("exact", flat), ("IVF", ivf)):
        there = faiss.index_cpu_to_gpu(resources, 0, index)
        if name == "IVF":
            there.nprobe = PROBES
        there.search(queries, K)  # a warm-up
        spent = seconds(exact(there), setting.device)
        found[f"faiss, GPU, {name}"] = {
            "queries_per_s": asked / spent, "recall": recall(truth, right),
        }  # fmt: skip
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


def recall(found: dict[str, Any], right: Any) -> float:
    """Share of the true neighbours among those found."""
    pairs = zip(found["ids"].tolist(), right.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / K for a, b in pairs]))


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
