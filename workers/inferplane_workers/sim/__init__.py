"""The simulated engine's server: vLLM's surface over the simulated core."""
