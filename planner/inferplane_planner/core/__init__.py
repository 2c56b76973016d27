"""The planner's core, pure: demand and an engine's times in, worker counts with their reasons out."""
