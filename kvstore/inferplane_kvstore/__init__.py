"""The tiered KV store."""
