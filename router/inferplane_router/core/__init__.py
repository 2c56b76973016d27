"""The router's decisions without any I/O: block index, load, cost, choice, queue, records."""
