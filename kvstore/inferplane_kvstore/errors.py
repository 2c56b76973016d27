"""What can go wrong in the store.

StoreError
├── ConfigError: the configuration names a value that cannot be; field and fix
└── TierError: a tier cannot be read or written; for whoever asks that is a miss
"""


class StoreError(Exception):
    pass


class ConfigError(StoreError):
    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field = field


class TierError(StoreError):
    pass
