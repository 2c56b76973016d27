"""Several processes of one router: a supervisor, one that hears the agents and writes the index, and gateways."""
