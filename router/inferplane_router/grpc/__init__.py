"""The Router service: the gateway's choice, for other front ends."""
