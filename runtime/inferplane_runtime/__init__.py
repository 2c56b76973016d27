"""What every process needs: HTTP, configuration, logs, metrics, clocks.

Importing it turns gRPC's fork support off, for which gRPC looks once, when it is imported. A loop of libuv starts
programs by a plain fork, in whose child gRPC's handlers run between fork and exec: beside calls under way one child in
twenty dies there, without a word, and the others are announced on stderr. No process of ours goes on with gRPC in a
fork of itself.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
