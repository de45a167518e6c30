"""Types: PyFlink's names for what states hold.

Most are Arrow's types as they are. Tuples, rows, maps and big integers are other objects in PyFlink than Arrow gives
for them. Such a type has an ``encoder`` and a ``decoder``, made once for a state. Where nothing differs, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfkv._errors import SchemaError
from sfkv._types import ValueSchema
from sfkv.flink.row import Row

Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class RowTypeInfo:
    """Rows, or tuples. Made by ``Types.ROW``, ``Types.ROW_NAMED`` and ``Types.TUPLE``.

    Attributes:
        names: of the fields.
        types: of the fields; each may be None.
        of_tuples: whether they are read as tuples.
    """

    names: tuple[str, ...]
    types: tuple[Any, ...]
    of_tuples: bool

    def __post_init__(self) -> None:
        if not all(isinstance(name, str) for name in self.names):
            raise SchemaError(f"the names of fields are texts, and {list(self.names)} are none")
        if len(self.names) != len(self.types):
            raise SchemaError(f"{len(self.names)} names {self.names} were given for {len(self.types)} types")
        ValueSchema.of(self.arrow)  # refuses what cannot be stored

    @property
    def arrow(self) -> pa.DataType:
        """What is stored: a struct type. As ``key=`` of a backend it makes keys of several columns."""
        return pa.struct([(name, arrow_of(type)) for name, type in zip(self.names, self.types, strict=True)])

    def encoder(self) -> Convert:
        names, encoders = self.names, [encoder_of(type) for type in self.types]

        def encode(value: Any) -> dict[str, Any]:
            if isinstance(value, dict):
                if set(value) != set(names):
                    raise SchemaError(f"a row with the fields {', '.join(names)} is expected, and {value!r} has others")
                value = [value[name] for name in names]
            if not isinstance(value, (tuple, list, Row)) or len(value) != len(names):
                raise SchemaError(f"a {self._kind} of {len(names)} fields is expected, and {value!r} is none")
            if isinstance(value, Row) and value._names not in (None, names):
                value = value.get_fields_by_names(names)
            return {name: _applied(encode, part) for name, encode, part in zip(names, encoders, value, strict=True)}

        return encode

    def decoder(self) -> Convert:
        names, decoders = self.names, [decoder_of(type) for type in self.types]
        as_they_are = not any(decoders)

        def decode(record: dict[str, Any]) -> Any:
            values: Any = record.values()
            if not as_they_are:
                values = [_applied(decode, part) for decode, part in zip(decoders, values, strict=True)]
            if self.of_tuples:
                return tuple(values)
            row = Row(*values)
            row.set_field_names(names)
            return row

        return decode

    def key_encoder(self) -> Convert | None:
        """User keys of several columns are tuples in sfkv; a plain tuple is taken as it is."""
        if self.of_tuples and not any(map(encoder_of, self.types)):
            return None
        encode = self.encoder()
        return lambda key: None if key is None else tuple(encode(key).values())

    def key_decoder(self) -> Convert | None:
        if self.of_tuples and not any(map(decoder_of, self.types)):
            return None
        decode = self.decoder()
        return lambda key: decode(dict(zip(self.names, key, strict=True)))

    @property
    def _kind(self) -> str:
        return "tuple" if self.of_tuples else "row"

    def __repr__(self) -> str:
        types = ", ".join(map(str, self.types))
        if self.of_tuples or self.names == _places(self.types):
            return f"Types.{self._kind.upper()}([{types}])"
        return f"Types.ROW_NAMED({list(self.names)}, [{types}])"


@dataclass(frozen=True)
class MapTypeInfo:
    """Dicts. Made by ``Types.MAP``. For many entries take a map state, which reads and writes them one by one."""

    key: Any
    value: Any

    def __post_init__(self) -> None:
        ValueSchema.of(self.arrow)

    @property
    def arrow(self) -> pa.DataType:
        """What is stored: a map type."""
        return pa.map_(arrow_of(self.key), arrow_of(self.value))

    def encoder(self) -> Convert:
        encode_key, encode_value = encoder_of(self.key), encoder_of(self.value)

        def encode(value: Any) -> list[tuple[Any, Any]]:
            if not isinstance(value, Mapping):
                raise SchemaError(f"a dict is expected, and {value!r} is none")
            return [(_applied(encode_key, key), _applied(encode_value, item)) for key, item in value.items()]

        return encode

    def decoder(self) -> Convert:
        decode_key, decode_value = decoder_of(self.key), decoder_of(self.value)
        if decode_key is None and decode_value is None:
            return dict
        return lambda pairs: {_applied(decode_key, key): _applied(decode_value, item) for key, item in pairs}

    def __repr__(self) -> str:
        return f"Types.MAP({self.key}, {self.value})"


@dataclass(frozen=True)
class ListTypeInfo:
    """Lists of what Arrow reads otherwise. Made by ``Types.LIST``. To append, take a list state."""

    element: Any

    def __post_init__(self) -> None:
        ValueSchema.of(self.arrow)

    @property
    def arrow(self) -> pa.DataType:
        """What is stored: a list type."""
        return pa.list_(arrow_of(self.element))

    def encoder(self) -> Convert:
        encode_element = encoder_of(self.element)

        def encode(value: Any) -> list[Any]:
            if not isinstance(value, (list, tuple)):
                raise SchemaError(f"a list is expected, and {value!r} is none")
            return [_applied(encode_element, element) for element in value]

        return encode

    def decoder(self) -> Convert:
        decode = decoder_of(self.element)
        return lambda values: [_applied(decode, value) for value in values]

    def __repr__(self) -> str:
        return f"Types.LIST({self.element})"


@dataclass(frozen=True)
class BigIntegerTypeInfo:
    """Whole numbers of up to 76 digits. Made by ``Types.BIG_INT``."""

    @property
    def arrow(self) -> pa.DataType:
        """What is stored: a decimal without a fraction."""
        return pa.decimal256(76, 0)

    def encoder(self) -> Convert | None:
        return None  # the state takes an int as it is

    def decoder(self) -> Convert:
        return int

    def __repr__(self) -> str:
        return "Types.BIG_INT()"


TypeInformation = RowTypeInfo | MapTypeInfo | ListTypeInfo | BigIntegerTypeInfo


class Types:
    """PyFlink's names for types. What they give is taken by descriptors; what is Arrow's own, by all of sfkv.

    Everywhere a pyarrow type, or Python's short name for one, may stand in their place.
    """

    @staticmethod
    def STRING() -> pa.DataType:
        """Text."""
        return pa.utf8()

    @staticmethod
    def CHAR() -> pa.DataType:
        """Text, of any length."""
        return pa.utf8()

    @staticmethod
    def BYTE() -> pa.DataType:
        """Whole numbers of 8 bits, with a sign. A larger one is refused."""
        return pa.int8()

    @staticmethod
    def SHORT() -> pa.DataType:
        """Whole numbers of 16 bits."""
        return pa.int16()

    @staticmethod
    def INT() -> pa.DataType:
        """Whole numbers of 32 bits."""
        return pa.int32()

    @staticmethod
    def LONG() -> pa.DataType:
        """Whole numbers of 64 bits."""
        return pa.int64()

    @staticmethod
    def BIG_INT() -> BigIntegerTypeInfo:
        """Whole numbers of up to 76 digits."""
        return BigIntegerTypeInfo()

    @staticmethod
    def BIG_DEC() -> pa.DataType:
        """Decimals with 20 digits before the point and 18 behind it, as Flink's SQL takes them; more are refused.

        Another precision is ``pa.decimal128(precision, scale)``.
        """
        return pa.decimal128(38, 18)

    @staticmethod
    def BOOLEAN() -> pa.DataType:
        """True or False."""
        return pa.bool_()

    @staticmethod
    def FLOAT() -> pa.DataType:
        """Floating-point numbers of 32 bits: others are rounded."""
        return pa.float32()

    @staticmethod
    def DOUBLE() -> pa.DataType:
        """Floating-point numbers of 64 bits, which are Python's."""
        return pa.float64()

    @staticmethod
    def SQL_DATE() -> pa.DataType:
        """``datetime.date``."""
        return pa.date32()

    @staticmethod
    def SQL_TIME() -> pa.DataType:
        """``datetime.time``, in microseconds."""
        return pa.time64("us")

    @staticmethod
    def SQL_TIMESTAMP() -> pa.DataType:
        """``datetime.datetime`` without a zone, in microseconds."""
        return pa.timestamp("us")

    @staticmethod
    def INSTANT() -> pa.DataType:
        """``datetime.datetime`` with a zone, in microseconds; read in UTC."""
        return pa.timestamp("us", tz="UTC")

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> Any:
        """Objects, stored as msgpack and never pickled: numbers, text, bytes, lists, dicts. A tuple is read as a list.

        ``sfkv.Msgpack(cls)`` reads objects of a class. Only a state as a whole may be of it, and no field.
        """
        return object

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> RowTypeInfo:
        """Tuples. Their fields are stored as the columns f0, f1 and so on."""
        types = _several(field_types)
        return RowTypeInfo(_places(types), types, of_tuples=True)

    @staticmethod
    def ROW(field_types: Sequence[Any]) -> RowTypeInfo:
        """``Row`` objects with the fields f0, f1 and so on. Tuples, lists and dicts are taken too."""
        types = _several(field_types)
        return RowTypeInfo(_places(types), types, of_tuples=False)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[Any]) -> RowTypeInfo:
        """``Row`` objects with named fields. Tuples, lists and dicts are taken too."""
        return RowTypeInfo(_several(field_names), _several(field_types), of_tuples=False)

    @staticmethod
    def LIST(element_type_info: Any) -> Any:
        """Lists, which are read and written as a whole."""
        listed = ListTypeInfo(element_type_info)
        return listed if isinstance(element_type_info, TypeInformation) else listed.arrow

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> MapTypeInfo:
        """Dicts, which are read and written as a whole."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> Any:
        """Arrays of numbers, as lists; of ``Types.BYTE()``, as bytes."""
        return pa.binary() if element_type == pa.int8() else Types.LIST(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> Any:
        """Arrays of numbers or text, as lists."""
        return Types.LIST(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> Any:
        """Arrays of tuples, rows and the like, as lists."""
        return Types.LIST(element_type)


def state_type(type_info: Any) -> Any:
    """What sfkv's states take for a type of PyFlink's, of pyarrow's or of Python's."""
    return type_info.arrow if isinstance(type_info, TypeInformation) else type_info


def arrow_of(type_info: Any) -> pa.DataType:
    """The Arrow type of a field or element.

    Raises:
        SchemaError: it is an object's, which only a state as a whole may be.
    """
    if isinstance(type_info, TypeInformation):
        return type_info.arrow
    schema = ValueSchema.of(type_info)
    if schema.serializer is not None:
        raise SchemaError(f"{type_info!r} cannot stand inside another type: only a state as a whole may be of objects")
    return schema.arrow


def encoder_of(type_info: Any) -> Convert | None:
    """What turns a value into what the state takes; None if it is taken as it is."""
    return type_info.encoder() if isinstance(type_info, TypeInformation) else None


def decoder_of(type_info: Any) -> Convert | None:
    """What turns what the state gives into a value; None if it is given as it is."""
    return type_info.decoder() if isinstance(type_info, TypeInformation) else None


def naming(encode: Convert | None, state: str) -> Convert | None:
    """``encode``, whose errors name the state."""
    if encode is None:
        return None

    def encoded(value: Any) -> Any:
        try:
            return encode(value)
        except SchemaError as error:
            raise SchemaError(f"{error} [state {state!r}]", state=state) from error

    return encoded


def key_encoder_of(type_info: Any) -> Convert | None:
    """The same as ``encoder_of`` for the user keys of a map state."""
    return type_info.key_encoder() if isinstance(type_info, RowTypeInfo) else encoder_of(type_info)


def key_decoder_of(type_info: Any) -> Convert | None:
    """The same as ``decoder_of`` for the user keys of a map state."""
    return type_info.key_decoder() if isinstance(type_info, RowTypeInfo) else decoder_of(type_info)


def _applied(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _places(types: Sequence[Any]) -> tuple[str, ...]:
    return tuple(f"f{place}" for place in range(len(types)))


def _several(parts: Sequence[Any]) -> tuple[Any, ...]:
    if isinstance(parts, (str, bytes)) or not isinstance(parts, Sequence):
        raise SchemaError(f"a list of types or names is expected, and {parts!r} is none")
    return tuple(parts)
