"""Chat models behind OpenAI-compatible servers that play: by ReAct's texts or by calls of tools."""
