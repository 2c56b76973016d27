"""The inferplane command: kubectl's habits over local instances and clusters."""
