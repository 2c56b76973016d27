"""Worker streams: what agents say, brought to the core, and what the core wants them to know, brought back."""
