"""What can go wrong between the processes of a router.

ProcessError
├── BrokenFrameError   what came is no frame: the channel ends
└── ChannelLostError   whoever was asked is gone, or gave no answer in time
"""


class ProcessError(Exception):
    """Something between two processes of one router."""


class BrokenFrameError(ProcessError):
    """What came is no frame."""


class ChannelLostError(ProcessError):
    """There is nobody at the other end any more."""
