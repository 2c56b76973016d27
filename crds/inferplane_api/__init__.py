"""What two components say to each other: custom resources, catalogue, wire messages."""
