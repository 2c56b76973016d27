"""DecodePool: the workers of one service whose engine takes KV blocks over and generates tokens."""

from typing import Literal

from pydantic import Field

from inferplane_api.v1alpha1.metadata import API_VERSION, ObjectMeta
from inferplane_api.v1alpha1.pool import PoolSpec, PoolStatus
from inferplane_api.v1alpha1.wire import WireModel


class DecodePool(WireModel):
    api_version: Literal["inferplane.dev/v1alpha1"] = Field(default=API_VERSION, description="API group and version.")
    kind: Literal["DecodePool"] = Field(default="DecodePool", description="Kind.")
    metadata: ObjectMeta = Field(description="Name, namespace, labels, annotations.")
    spec: PoolSpec = Field(description="What is wanted.")
    status: PoolStatus | None = Field(default=None, description="What is; written by the operator.")
