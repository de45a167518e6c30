"""Time and Duration: the lengths of time that a time to live takes."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from sfkv._errors import ConfigError
from sfkv.config._options import whole_number

_MS = {"milliseconds": 1, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000, "days": 86_400_000}
_MAX_MS = (1 << 63) - 1  # what a stamp of 64 bits holds


@dataclass(frozen=True, order=True)
class Time:
    """A length of time in milliseconds: ``Time.days(90)``.

    Raises:
        ConfigError: it is no whole number, negative, or of more than 64 bits.
    """

    _milliseconds: int

    def __post_init__(self) -> None:
        _check_ms(self._milliseconds)

    def to_milliseconds(self) -> int:
        """Its length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """So many milliseconds."""
        return Time(_scaled(milliseconds, "milliseconds"))

    @staticmethod
    def seconds(seconds: int) -> Time:
        """So many seconds."""
        return Time(_scaled(seconds, "seconds"))

    @staticmethod
    def minutes(minutes: int) -> Time:
        """So many minutes."""
        return Time(_scaled(minutes, "minutes"))

    @staticmethod
    def hours(hours: int) -> Time:
        """So many hours."""
        return Time(_scaled(hours, "hours"))

    @staticmethod
    def days(days: int) -> Time:
        """So many times 24 hours."""
        return Time(_scaled(days, "days"))

    def __repr__(self) -> str:
        return f"Time({_text_of(self._milliseconds)})"


@dataclass(frozen=True, order=True)
class Duration:
    """A length of time, which may stand wherever a ``Time`` does: ``Duration.of_days(30)``.

    Raises:
        ConfigError: as for ``Time``.
    """

    _milliseconds: int

    def __post_init__(self) -> None:
        _check_ms(self._milliseconds)

    def to_millis(self) -> int:
        """Its length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """So many milliseconds."""
        return Duration(_scaled(millis, "milliseconds"))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """So many seconds."""
        return Duration(_scaled(seconds, "seconds"))

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """So many minutes."""
        return Duration(_scaled(minutes, "minutes"))

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """So many hours."""
        return Duration(_scaled(hours, "hours"))

    @staticmethod
    def of_days(days: int) -> Duration:
        """So many times 24 hours."""
        return Duration(_scaled(days, "days"))

    def __repr__(self) -> str:
        return f"Duration({_text_of(self._milliseconds)})"


def time_of(length: Any, option: str) -> Time | Duration:
    """A length of time as ``Time`` or ``Duration``. ``option`` is what an error calls it."""
    if isinstance(length, dt.timedelta):
        milliseconds, rest = divmod(length, dt.timedelta(milliseconds=1))
        if rest:
            raise ConfigError(f"{option} is {length!r}: use whole milliseconds")
        return Time(milliseconds)
    if not isinstance(length, (Time, Duration)):
        raise ConfigError(f"{option} is {length!r}: pass a Time, such as Time.days(90), a Duration or a timedelta")
    return length


def milliseconds_of(length: Time | Duration) -> int:
    return length._milliseconds


def _scaled(count: int, unit: str) -> int:
    return check_count(count, unit, at_least=0) * _MS[unit]


def _check_ms(milliseconds: int) -> None:
    if check_count(milliseconds, "milliseconds", at_least=0) > _MAX_MS:
        raise ConfigError(f"a time of {milliseconds} ms is too long: at most 2^63 - 1")


def check_count(count: Any, option: str, at_least: int) -> int:
    number = whole_number(count)
    if number is None or number < at_least:
        raise ConfigError(f"{option} is {count!r}: use a whole number from {at_least}")
    return number


def _text_of(milliseconds: int) -> str:
    unit = next(unit for unit in reversed(_MS) if milliseconds % _MS[unit] == 0)
    return f"{milliseconds // _MS[unit]} {unit}"
