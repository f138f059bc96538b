from typing import Any, TypedDict, final

version: str

class Description(TypedDict):
    fields: tuple[tuple[str, str, tuple[int | None, ...]], ...]
    dataset: str
    samples: int
    batches_per_epoch: int
    fingerprint: int
    start_epoch: int
    start_consumed: int
    prefetch: int
    slots: int
    ring_bytes: int
    device: str
    device_number: int
    pool_bytes: int

@final
class Array:
    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def offsets(self) -> "Array | None": ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def tobytes(self) -> bytes: ...

@final
class Batch:
    @property
    def count(self) -> int: ...
    @property
    def skipped(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def index(self) -> int: ...
    @property
    def first_position(self) -> int: ...
    @property
    def last_of_epoch(self) -> bool: ...
    def arrays(self) -> tuple[Array, ...]: ...
    def samples(self) -> list[int]: ...

@final
class Feed:
    def __init__(
        self,
        dataset: str,
        batch_size: int,
        *,
        socket: str | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 0,
        local_world_size: int = 0,
        device_world_size: int = 0,
        share: str | None = None,
        wait_for: int = 0,
        prefetch: int = 0,
        max_lag_s: int = 0,
        ring_bytes: int = 0,
        resume: str | None = None,
        device: str | None = None,
        client_name: str | None = None,
        connect_timeout_ms: int = 0,
        reconnect_timeout_ms: int = 0,
        view: tuple[int, int, int, int, bytes, int, int, Any] | None = None,
    ) -> None: ...
    def next(self, timeout_ms: int = -1, waited_ms: int = 0, /) -> Batch | None: ...
    def connected(self) -> bool: ...
    def settle(self) -> None: ...
    def token(self) -> str: ...
    def token_at(self, epoch: int, consumed: int) -> str: ...
    def describe(self) -> Description: ...
    def close(self) -> None: ...
