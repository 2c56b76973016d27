"""Tokens for the gateway: files from agents, encoders off the event loop, the engine as the last resort."""

from inferplane_router.tokenization.agent_call import AgentCallError, AgentCalls
from inferplane_router.tokenization.file_cache import FileCache
from inferplane_router.tokenization.service import PromptService, TokenizationSettings

__all__ = ["AgentCallError", "AgentCalls", "FileCache", "PromptService", "TokenizationSettings"]
