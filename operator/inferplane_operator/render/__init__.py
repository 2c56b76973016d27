"""Rendering: custom resources in, plain values out; nothing is applied, started or looked up.

Problem.  A service must run as Pods of a cluster and as processes of a laptop, from the same file, without two
descriptions that drift apart.
Idea.  A pool becomes a Pod template whose containers name addresses, ports and folders as `$(NAME)` only.  Kubernetes
expands them from the rendered environment; a local runner puts its own values there (`names.RUNNER_VARIABLES`,
`expansion.container_environment`, `expansion.container_command`).
Programs.  The engine container's `args` begin with the program that takes the engine's arguments: `vllm serve` of the
stock image.  On a machine `local_options(engine_python=...)` renders `PYTHON -m vllm.entrypoints.openai.api_server`
instead, and this interpreter for agent and simulated engine.
Trade-off.  Templates are dictionaries, not typed objects: they are merged with the user's own, which may hold anything.
Invariant.  Equal inputs give equal outputs; `revision` depends on what a worker is made of and on nothing else.
"""

from inferplane_api.catalogue_entries import catalogue_routes, catalogue_service
from inferplane_operator.render.errors import RenderError
from inferplane_operator.render.expansion import container_command, container_environment, expand
from inferplane_operator.render.options import RenderOptions, local_options
from inferplane_operator.render.router import RouterSettings, cluster_router, router_config, router_grace_period_s
from inferplane_operator.render.service import render_service
from inferplane_operator.render.values import Manifest, RenderedPool, RenderedService

__all__ = [
    "Manifest",
    "RenderError",
    "RenderOptions",
    "RenderedPool",
    "RenderedService",
    "RouterSettings",
    "catalogue_routes",
    "catalogue_service",
    "cluster_router",
    "container_command",
    "container_environment",
    "expand",
    "local_options",
    "render_service",
    "router_config",
    "router_grace_period_s",
]
