"""GGUF files, in which llama.cpp keeps models: written as the folder that transformers loads, one
tensor at a time."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import EngineError, MissingExtraError
from .adapters import require_all

if TYPE_CHECKING:
    from .base import Floats

EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
ENDS = ("eos", "eot", "eom")
"""Tokens of a file's header that end a text, a turn, or a message."""
ROWS = 8192
"""Rows of a tensor that are held in float32 at a time."""


class Stored(NamedTuple):
    """One tensor of a file."""

    kind: Any
    """Its quantisation, a ``gguf.GGMLQuantizationType``."""
    shape: tuple[int, ...]
    offset: int
    """Bytes from the file's beginning."""
    size: int
    """Bytes."""

    @property
    def bits(self) -> float:
        """Bits of a number's magnitude, scales of blocks shared out."""
        floats = {"F16": 11.0, "BF16": 8.0}
        return floats.get(self.kind.name, 8 * self.size / float(np.prod(self.shape)))

    def rows(self, file: IO[bytes], every: int = 1) -> Iterator[Floats]:
        """Read the numbers as (≤ ROWS, last of shape) arrays, or of every so manieth."""
        from gguf.quants import dequantize

        width = self.shape[-1]
        count = int(np.prod(self.shape)) // width
        each = self.size // count
        for start in range(0, count, ROWS * every):
            n = min(ROWS, count - start)
            file.seek(self.offset + start * each)
            data = np.frombuffer(bytearray(file.read(n * each)), np.uint8).reshape(n, each)
            yield dequantize(data, self.kind).astype(np.float32, copy=False)


def to_folder(file: Path, folder: Path) -> Path:
    """Write the model of a GGUF file as a folder of bfloat16 safetensors, with its tokenizer, chat
    template and the tokens that end a text; returns the folder.

    At most one tensor is in memory at a time. An output matrix that is the embedding but for
    rounding, as llama.cpp's makers often keep it twice, becomes one with it again, from the finer
    of the two.

    Raises:
        EngineError: the file cannot be read.
        MissingExtraError: ``gguf`` or ``transformers`` is missing.
    """
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtraError("reading a GGUF file", "gguf")
    try:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError("a transformers language model", "llm") from error
    parent, named = str(file.parent), {"gguf_file": file.name, "trust_remote_code": False}
    try:
        AutoTokenizer.from_pretrained(parent, **named).save_pretrained(str(folder))
        config = AutoConfig.from_pretrained(parent, **named)
        tensors, architecture, ends = _read(file)
        with file.open("rb") as data:
            tied = config.tie_word_embeddings or _same(data, tensors)
            config.tie_word_embeddings, config.dtype = tied, torch.bfloat16
            for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
                if hasattr(config, name):
                    delattr(config, name)
            if config.get_text_config().num_hidden_layers > len(tensors):
                raise ValueError(
                    f"it says {config.get_text_config().num_hidden_layers:,} layers, and holds "
                    f"{len(tensors):,} tensors"
                )
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config)
            if tied and OUTPUT in tensors:
                finer = max(tensors[EMBEDDING], tensors.pop(OUTPUT), key=lambda t: t.bits)
                tensors[EMBEDDING] = finer
            _write(model, architecture, data, tensors, folder / "model.safetensors")
    except Exception as error:  # what the readers raise for a broken file varies
        raise EngineError(f"{file} cannot be read as a GGUF model: {error}") from error
    config.architectures = [type(model).__name__]
    config.save_pretrained(str(folder))
    model.generation_config.eos_token_id = ends or None
    model.generation_config.save_pretrained(str(folder))
    return folder


def _read(file: Path) -> tuple[dict[str, Stored], str, list[int]]:
    """A file's tensors by name, its model's kind, and the tokens that end a text. The reader, whose
    hundreds of megabytes are one object for each word of the vocabulary, is let go of."""
    from gguf import GGUFReader

    reader = GGUFReader(str(file))
    if reader.byte_order == "S":
        raise ValueError("its numbers have another byte order than this machine's")
    found = {}
    for t in reader.tensors:
        shape = tuple(int(n) for n in reversed(t.shape))
        found[t.name] = Stored(t.tensor_type, shape, int(t.data_offset), int(t.n_bytes))
    kind = str(reader.fields["general.architecture"].contents())
    fields = [reader.get_field(f"tokenizer.ggml.{name}_token_id") for name in ENDS]
    return found, kind, list(dict.fromkeys(int(f.contents()) for f in fields if f is not None))


def _same(file: IO[bytes], tensors: Mapping[str, Stored]) -> bool:
    """Return whether the output matrix is the embedding, but for what the coarser of the two was
    rounded to: 4 · 2^-bits of the numbers' size, where quantisers err by about 1.2 and unrelated
    matrices differ by more than 1."""
    one, two = tensors[EMBEDDING], tensors[OUTPUT]
    if one.shape != two.shape:
        return False
    apart = size = 0.0
    for a, b in zip(one.rows(file, 4), two.rows(file, 4), strict=True):
        apart += float(np.square(a - b).sum())
        size += float(np.square(b).sum())
    return apart <= size * (4 * 2 ** -min(one.bits, two.bits)) ** 2


def _write(
    model: Any, kind: str, file: IO[bytes], tensors: Mapping[str, Stored], path: Path
) -> None:
    """Write the weights of a model without any (on "meta") in the format of safetensors."""
    import torch
    from rich.console import Console
    from transformers import modeling_gguf_pytorch_utils as reading

    from ..utils.progress import LineProgress

    shapes = {k: list(v.shape) for k, v in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        shapes = {k: v for k, v in shapes.items() if k not in (model._tied_weights_keys or ())}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    processor = reading.TENSOR_PROCESSORS.get(kind, reading.TensorProcessor)(model.config.to_dict())
    names = reading.get_gguf_hf_weights_map(model, processor)
    gathered: dict[str, Any] = {"tensors": {}}  # of several tensors, such as a mixture's experts
    written: dict[str, int] = {}  # bytes
    with path.open("wb") as out, LineProgress(console=Console(stderr=True)) as bar:
        task = bar.add_task(
            f"converting {Path(file.name).name}", total=len(tensors), unit="tensors"
        )

        def put(name: str, value: Any, start: int = 0) -> int:
            if name not in shapes:
                raise ValueError(f"the model has no {name}")
            offset = header[name]["data_offsets"][0] + start
            out.seek(8 + len(text) + offset)
            raw = torch.as_tensor(value).bfloat16().contiguous().view(torch.uint8)
            written[name] = start + out.write(raw.numpy().tobytes())
            return written[name]

        out.write(len(text).to_bytes(8, "little") + text)
        for done, (name, stored) in enumerate(tensors.items()):
            bar.update(task, completed=done)
            if name == EMBEDDING:  # the largest, and never turned about
                start = 0
                for rows in stored.rows(file):
                    start = put(names[name], rows, start)
                continue
            value = np.concatenate(list(stored.rows(file))).reshape(stored.shape)
            made = processor.process(
                weights=value, name=name, tensor_key_mapping=names, parsed_parameters=gathered
            )
            if made.name in names:
                put(names[made.name], made.weights)
        for name, value in gathered["tensors"].items():
            put(name, value)
    require_all(shapes.keys() - written.keys())
    for name, size in written.items():
        if size != 2 * int(np.prod(shapes[name])):
            raise ValueError(f"{name} is not of the size {shapes[name]} that the header says")
