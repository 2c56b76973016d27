"""What routers tell of requests, gathered into what a plan step takes."""
