"""The planner: how many prefill and decode replicas hold the SLO at the least cost."""
