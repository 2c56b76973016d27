"""Kernels are compiled while tests are collected, so that no test's time limit pays for it."""

from inferplane_router.core.warming import warm
from inferplane_router.processes.running import warm_readers

warm()
warm_readers()
