"""A real one-node Kubernetes for the end-to-end tests, started in seconds and gone without a trace.

Problem: the tests need real Pods, probes, Services, evictions and an API server that can be restarted, on machines
where neither a cluster nor Docker-in-Docker can be had.  Idea: Kubernetes is a handful of programs; built once into a
cache of the user, they run beside containerd in namespaces of their own.  Trade-off: one node, no enforcement of
network policies, no metrics API.

| module | what it is |
|---|---|
| `places` | where things are kept |
| `alone` | what one process does at a time |
| `machine` | whether this machine can hold a cluster |
| `packages`, `binaries` | what the machine must have, what is built |
| `enclosure` | the namespaces that hold a cluster: it ends when they do |
| `certificates`, `control_plane`, `node` | the programs and what they are told |
| `administrator` | asks an API server |
| `one_node` | all of it: start, stop, restart a part |
| `audit` | what the API server wrote down |

Invariant: nothing outlives the process that started a cluster, however that process ends.
"""
