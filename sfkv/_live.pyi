from typing import final

from typing_extensions import Self

@final
class Stored:
    def __new__(cls, row: bytes) -> Self: ...

@final
class Objects:
    def __new__(cls) -> Self: ...
