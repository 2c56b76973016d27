"""One module per verb, each with a click command called `command`."""
