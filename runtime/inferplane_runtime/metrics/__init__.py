"""Metrics: what is measured (specs, one catalogue), how it is counted (instruments), how it is served (exposition)."""
