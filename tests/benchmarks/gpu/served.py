"""vLLM: rollouts, and weights handed to it; in a process of its own, which frees the memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from searchgym.core import run_episodes
from searchgym.llms import Sampling
from searchgym.policies import CausalLMPolicy

from .models import random_model, tokenizer
from .rollouts import fresh
from .setting import Report, Setting, clean, seconds, skipped

CONTEXT = 4096


def part(setting: Setting) -> Report:
    """Measure the smallest size."""
    if find_spec("vllm") is None:
        return skipped("vllm is not installed")
    if setting.left < 60 and not setting.dry:
        return skipped("no time was left for it")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [
            sys.executable, "-m", __spec__.name, setting.device.type, setting.sizes[0],
            str(setting.dry), str(out),
        ]  # fmt: skip
        limit = None if setting.dry else setting.left
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        if done.returncode or not out.exists():
            raise RuntimeError("vLLM's process failed: " + "\n".join(done.stderr.splitlines()[-8:]))
        found: Report = json.loads(out.read_text(encoding="utf-8"))
    return found


def measure(device: torch.device, size: str, dry: bool) -> Report:
    """Start vLLM beside a trainer's share of the memory, play, and give it new weights."""
    from searchgym.llms import VllmGenerator

    setting = Setting(device, (size,), "", time.perf_counter() + 600, dry)
    on_gpu = device.type == "cuda"
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(size, device, setting.dtype)
        model.save_pretrained(folder)
        tokenizer(size).save_pretrained(folder)
        weights = {name: value.cpu() for name, value in model.state_dict().items()}
        del model
        clean(device)
        options: dict[str, Any] = (
            {"dtype": "bfloat16", "gpu_memory_utilization": 0.35, "max_num_seqs": 256}
            if on_gpu
            else {"dtype": "float32", "kv_cache_gb": 0.25, "enforce_eager": True}
        )
        begun = time.perf_counter()
        engine = VllmGenerator(folder, context=CONTEXT, **options)
        report: Report = {"size": size, "start_s": time.perf_counter() - begun}
        made = engine._params
        engine._params = lambda **asked: made(**{**asked, "ignore_eos": True})
        length = 8 if dry else 48
        policy = CausalLMPolicy(engine, "plain", sampling=Sampling(max_tokens=length))
        for count in (4,) if dry else (64, 256):
            played, toolbox = fresh(dry, count, f"vllm{count}")
            spent = seconds(partial(run_episodes, played, policy, toolbox, batch=count), device)
            rows = [row for e in played for row in policy.rows(e)]
            written = sum(int(row.sampled.sum()) for row in rows)
            report[f"lock step x {count}"] = {
                "tokens_per_s": written / spent, "written": written, "seconds": spent,
            }  # fmt: skip
        for name in ("first hand-over", "second hand-over"):
            report[name] = {"seconds": seconds(partial(engine.update_weights, weights), device)}
    return report


def main() -> None:
    """Measure as the command line says: device, size, dry run, file to write."""
    device, size, dry, out = sys.argv[1:]
    there = torch.device("cuda", 0) if device == "cuda" else torch.device("cpu")
    Path(out).write_text(json.dumps(measure(there, size, dry == "True")), encoding="utf-8")


if __name__ == "__main__":
    main()
