"""The machine: its name, what its makers promise, and what it does at most."""

from __future__ import annotations

import importlib.metadata
import subprocess
from typing import Any

import torch

from searchgym.evaluation import machine as described

from .setting import Report, Setting, clean, seconds

SHEET: tuple[tuple[str, float], ...] = (
    ("H100 PCIe", 756), ("H100 NVL", 835), ("H100", 989), ("H200", 989), ("GH200", 989),
    ("B200", 2250), ("A100", 312), ("A800", 312), ("L40S", 362), ("L40", 181), ("L4", 121),
    ("A10G", 70), ("A10", 125), ("RTX 4090", 165), ("RTX 3090", 71), ("V100", 125),
    ("T4", 65),
)  # fmt: skip
"""Part of a GPU's name → dense half-precision TFLOP/s of its data sheet (bfloat16 where it has it);
the first that fits counts."""
PACKAGES = ("torch", "transformers", "peft", "vllm", "faiss-cpu", "faiss-gpu", "faiss-gpu-cu12",
            "flash-attn", "numpy", "triton")  # fmt: skip


def promised(name: str) -> float | None:
    """Dense half-precision TFLOP/s of a data sheet; None for an unknown GPU."""
    return next((flops for part, flops in SHEET if part in name), None)


def matmul_tflops(device: torch.device, dtype: torch.dtype, size: int, rounds: int = 10) -> float:
    """TFLOP/s of products of two random (``size``, ``size``) matrices."""
    draw = torch.Generator(device).manual_seed(0)
    a, b = (torch.randn(size, size, generator=draw, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    for _ in range(3):
        torch.mm(a, b, out=out)

    def run() -> None:
        for _ in range(rounds):
            torch.mm(a, b, out=out)

    return rounds * 2 * size**3 / seconds(run, device) / 1e12


def copy_gb_s(device: torch.device, size: int, rounds: int = 10) -> float:
    """Bytes read and written per second, in GB/s, of copies of ``size`` bytes on the device."""
    a = torch.ones(size, dtype=torch.uint8, device=device)
    b = torch.empty_like(a)
    b.copy_(a)

    def run() -> None:
        for _ in range(rounds):
            b.copy_(a)

    return rounds * 2 * size / seconds(run, device) / 1e9


def driver() -> str | None:
    """Version of NVIDIA's driver; None where ``nvidia-smi`` does not tell."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout else None


def part(setting: Setting) -> Report:
    """Describe and measure the machine."""
    device, on_gpu = setting.device, setting.device.type == "cuda"
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    name = torch.cuda.get_device_name(device) if on_gpu else "CPU"
    found: dict[str, Any] = {
        "device": name, "driver": driver() if on_gpu else None, "cuda": torch.version.cuda,
        "packages": versions, "host": described(),
        "promised_tflops": promised(name) if on_gpu else None,
    }  # fmt: skip
    if on_gpu:
        found["memory_gib"] = round(
            torch.cuda.get_device_properties(device).total_memory / 2**30, 1
        )
    size = 256 if setting.dry else 8192
    found["matmul_size"] = size
    found["matmul_tflops"] = matmul_tflops(device, setting.dtype, size, 2 if setting.dry else 20)
    found["copy_gb_s"] = copy_gb_s(device, 1 << (22 if setting.dry else 32))
    clean(device)
    return found
