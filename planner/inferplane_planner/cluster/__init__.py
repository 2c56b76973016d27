"""Services of a Kubernetes cluster: what is wanted and there is watched, pools are scaled, statuses say why."""
