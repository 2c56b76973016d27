"""Local mode: an InferenceService as processes of this machine.

`plan` decides (pure), `worker` and `child` carry out, `reconcile` joins them, `desired` and `status` are what the
command line writes and reads; `__main__` is the runner's process.
"""
