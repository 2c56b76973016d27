"""What is made from the catalogue of metrics: its reference page, recording rules, alerts and dashboards."""
