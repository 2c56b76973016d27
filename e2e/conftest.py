"""Tests against a real Kubernetes; run by name: pytest e2e."""
