"""What runs beside an engine: the worker agent, and the simulated engine's server."""
