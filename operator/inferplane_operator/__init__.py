"""The operator: custom resources in, pods and processes out."""
