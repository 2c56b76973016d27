"""What every process needs: HTTP, configuration, logs, metrics, clocks."""
