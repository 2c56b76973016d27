"""Plans carried out: the process that observes a service, takes plan steps and scales."""
