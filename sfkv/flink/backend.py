"""EmbeddedRocksDBStateBackend and what configures it, as PyFlink spells them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import unquote

from sfkv._errors import ConfigError
from sfkv.backend import rocksdb
from sfkv.backend.keyed import KeyedStateBackend


class PredefinedOptions(Enum):
    """Named settings of the engine."""

    DEFAULT = 0  #: sfkv's own, which were chosen by measurement
    SPINNING_DISK_OPTIMIZED = 1  #: for disks that seek
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2  #: the same with much memory
    FLASH_SSD_OPTIMIZED = 3  #: for flash


class EmbeddedRocksDBStateBackend(rocksdb.EmbeddedRocksDBStateBackend):
    """State on disk, larger than memory: ``sfkv.EmbeddedRocksDBStateBackend`` with PyFlink's settings.

    Args:
        enable_incremental_checkpointing: whether a snapshot takes over the files that have not changed. Today every snapshot
            on the backend's file system does so, by hard links, and is complete in itself all the same; on another one
            all is copied. So it changes nothing yet, and is kept for ``is_incremental_checkpoints_enabled``.
        options: as for ``sfkv.EmbeddedRocksDBStateBackend``.

    Raises:
        ConfigError: naming the option.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None, **options: Any) -> None:
        super().__init__(**options)
        if not isinstance(enable_incremental_checkpointing, (bool, type(None))):
            raise ConfigError(f"enable_incremental_checkpointing is {enable_incremental_checkpointing!r}: use True or False")
        self._incremental = bool(enable_incremental_checkpointing)
        self._predefined_options = PredefinedOptions.DEFAULT

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether it was asked for."""
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Chooses named settings of the engine.

        This version of sfkv has none but ``DEFAULT`` yet: with another, ``open`` and ``restore`` raise ConfigError.

        Raises:
            ConfigError: it is no PredefinedOptions.
        """
        if not isinstance(options, PredefinedOptions):
            raise ConfigError(f"options is {options!r}: use one of {', '.join(map(str, PredefinedOptions))}")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """What was chosen."""
        return self._predefined_options

    def set_db_storage_paths(self, *paths: str) -> NoReturn:
        """Raises ConfigError: a backend lies in the directory that ``open`` is given."""
        raise ConfigError(f"storage paths are {paths}: there are none; pass the directory to open(path)")

    def set_options(self, options_factory_class_name: str) -> NoReturn:
        """Raises ConfigError: factories of options are Java classes."""
        raise ConfigError(f"{options_factory_class_name!r} is a Java class, which is not run here: use a Slot for the memory")

    def set_number_of_transfer_threads(self, number_of_transfer_threads: int) -> NoReturn:
        """Raises ConfigError: snapshots are folders of this machine, and nothing is transferred."""
        raise ConfigError(f"{number_of_transfer_threads} transfer threads have nothing to do: snapshots are local folders")

    def open(self, path: str | os.PathLike[str], **options: Any) -> KeyedStateBackend:
        """Opens the state in a directory, or makes it: ``sfkv.EmbeddedRocksDBStateBackend.open``.

        Raises:
            ConfigError: also if predefined options were chosen that there are not yet.
        """
        self._refuse_missing_options()
        return super().open(path, **options)

    def restore(
        self, path: str | os.PathLike[str], snapshots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Any
    ) -> KeyedStateBackend:
        """Makes a store from a snapshot, and opens it: ``sfkv.EmbeddedRocksDBStateBackend.restore``.

        Raises:
            ConfigError: also if predefined options were chosen that there are not yet.
        """
        self._refuse_missing_options()
        return super().restore(path, snapshots, **options)

    def _refuse_missing_options(self) -> None:
        if self._predefined_options is not PredefinedOptions.DEFAULT:
            raise ConfigError(
                f"{self._predefined_options} was chosen, and this version of sfkv does not apply predefined options yet: "
                "choose PredefinedOptions.DEFAULT, and give the memory by slot=sfkv.Slot(...)",
                code="not_yet",
            )


class FileSystemCheckpointStorage(os.PathLike[str]):
    """Where snapshots are kept: what ``KeyedStateBackend.snapshot`` takes, for ``file:///...`` or a plain path.

    Args:
        checkpoint_path: a folder of this machine. Other schemes, such as ``s3://``, are not there yet.

    Raises:
        ConfigError: the scheme is not ``file``; the URI names a host, or has a query or fragment; or the path is relative in a
            URI.
    """

    def __init__(self, checkpoint_path: str | os.PathLike[str]) -> None:
        text = os.fspath(checkpoint_path) if isinstance(checkpoint_path, (str, os.PathLike)) else None
        if not isinstance(text, str):
            raise ConfigError(f"checkpoint_path is {checkpoint_path!r}: use file:///... or a path")
        is_uri = text[:5].lower() == "file:"
        if "://" in text and not is_uri:
            raise ConfigError(
                f"{text!r} is not on this machine, and this version of sfkv does not keep snapshots elsewhere yet: "
                "use file:///... or a path, and copy the folders away",
                code="not_yet",
            )
        self._path = _path_of(text) if is_uri else Path(text)

    def get_checkpoint_path(self) -> str:
        """The folder."""
        return str(self._path)

    def __fspath__(self) -> str:
        return str(self._path)

    def __repr__(self) -> str:
        return f"FileSystemCheckpointStorage({str(self._path)!r})"


def _path_of(uri: str) -> Path:
    """The folder that a URI of the scheme ``file`` names."""
    path = uri[5:]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        path = slash + rest if host.lower() in ("", "localhost") else ""
    if not path.startswith("/"):
        raise ConfigError(f"{uri!r} names no folder of this machine: use file:///path")
    if "#" in path or "?" in path:
        raise ConfigError(f"{uri!r} has a fragment or query, which a folder has not: write %23 for #, and %3F for ?")
    return Path(unquote(path))
