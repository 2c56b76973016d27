"""The router: KV-cache-aware choice of workers, its HTTP gateway and its gRPC service."""
