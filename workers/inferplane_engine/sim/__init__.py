"""The simulated engine's core: no I/O, virtual time, real block accounting."""
