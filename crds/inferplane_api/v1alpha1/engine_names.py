"""What engines and their devices are called: all that a worker's agent wants of the resources, without their models."""

from enum import StrEnum


class EngineType(StrEnum):
    VLLM = "vllm"
    SGLANG = "sglang"
    SIM = "sim"


class Device(StrEnum):
    """What the engine computes on."""

    CUDA = "cuda"
    ROCM = "rocm"
    XPU = "xpu"
    NPU = "npu"
    CPU = "cpu"
