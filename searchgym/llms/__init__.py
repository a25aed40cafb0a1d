"""Text generators behind one protocol: transformers, vLLM in process, OpenAI-compatible servers."""
