"""What is known about engines: tokens, block identity, events, capabilities, timing."""
