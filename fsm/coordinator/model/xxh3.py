"""XXH3 with 64 bits, seed 0 and the default secret: the hash that Kafka takes of topic metadata.

Source: the specification of XXH3 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), version 0.2.0.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_MIX = (0x165667919E3779F9, 0x9FB21C651E98DF25)
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE = 64
_STRIPES = (len(_SECRET) - _STRIPE) // 8
"""Stripes of one block."""


def xxh3_64(data: bytes) -> int:
    """The hash, as an unsigned number of 64 bits.

    >>> hex(xxh3_64(b"abcd"))
    '0x6497a96f53a89890'
    """
    if len(data) <= 16:
        return _short(data)
    if len(data) <= 128:
        return _medium(data)
    return _longer(data) if len(data) <= 240 else _long(data)


def _number(data: bytes, place: int = 0, size: int = 8) -> int:
    return int.from_bytes(data[place : place + size], "little")


def _secret(place: int) -> int:
    return _number(_SECRET, place)


def _folded(one: int, other: int) -> int:
    product = one * other
    return (product & _MASK) ^ (product >> 64)


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _avalanche(value: int) -> int:
    value &= _MASK
    value ^= value >> 37
    value = value * _MIX[0] & _MASK
    return value ^ value >> 32


def _avalanche_of_xxh64(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64[1] & _MASK
    value ^= value >> 29
    value = value * _PRIME64[2] & _MASK
    return value ^ value >> 32


def _short(data: bytes) -> int:
    size = len(data)
    if size == 0:
        return _avalanche_of_xxh64(_secret(56) ^ _secret(64))
    if size < 4:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _avalanche_of_xxh64(combined ^ _number(_SECRET, 0, 4) ^ _number(_SECRET, 4, 4))
    if size <= 8:
        return _up_to_8(data)
    low = _number(data) ^ _secret(24) ^ _secret(32)
    high = _number(data, size - 8) ^ _secret(40) ^ _secret(48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return _avalanche(size + swapped + high + _folded(low, high))


def _up_to_8(data: bytes) -> int:
    size = len(data)
    value = _number(data, size - 4, 4) + (_number(data, 0, 4) << 32) ^ _secret(8) ^ _secret(16)
    value ^= _rotated(value, 49) ^ _rotated(value, 24)
    value = value * _MIX[1] & _MASK
    value ^= (value >> 35) + size
    value = value * _MIX[1] & _MASK
    return value ^ value >> 28


def _mixed(data: bytes, place: int, secret: int) -> int:
    return _folded(_number(data, place) ^ _secret(secret), _number(data, place + 8) ^ _secret(secret + 8))


def _medium(data: bytes) -> int:
    size = len(data)
    found = size * _PRIME64[0]
    for i in range((size - 1) // 32, -1, -1):
        found += _mixed(data, 16 * i, 32 * i) + _mixed(data, size - 16 * (i + 1), 32 * i + 16)
    return _avalanche(found)


def _longer(data: bytes) -> int:
    size = len(data)
    found = _avalanche(size * _PRIME64[0] + sum(_mixed(data, 16 * i, 16 * i) for i in range(8)))
    found += sum(_mixed(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
    return _avalanche(found + _mixed(data, size - 16, 136 - 17))


def _long(data: bytes) -> int:
    lanes = [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]]
    stripes = (len(data) - 1) // _STRIPE
    for i in range(stripes):
        _accumulate(lanes, data, _STRIPE * i, 8 * (i % _STRIPES))
        if i % _STRIPES == _STRIPES - 1:
            _scramble(lanes)
    _accumulate(lanes, data, len(data) - _STRIPE, len(_SECRET) - _STRIPE - 7)
    merged = sum(_folded(lanes[i] ^ _secret(11 + 8 * i), lanes[i + 1] ^ _secret(19 + 8 * i)) for i in range(0, 8, 2))
    return _avalanche(len(data) * _PRIME64[0] + merged)


def _accumulate(lanes: list[int], data: bytes, place: int, secret: int) -> None:
    for i in range(8):
        value = _number(data, place + 8 * i)
        keyed = value ^ _secret(secret + 8 * i)
        lanes[i ^ 1] = lanes[i ^ 1] + value & _MASK
        lanes[i] = lanes[i] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK


def _scramble(lanes: list[int]) -> None:
    for i in range(8):
        value = lanes[i] ^ lanes[i] >> 47 ^ _secret(len(_SECRET) - _STRIPE + 8 * i)
        lanes[i] = value * _PRIME32[0] & _MASK
