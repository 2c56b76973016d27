"""gRPC servers whose calls are plain calls: HTTP/2 at the cost of its bytes, without machinery between them."""
