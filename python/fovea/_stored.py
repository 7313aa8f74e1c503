"""How objects of the extension are stored by pickle, copied and printed: by what they were made of, under a version."""

from array import array
from binascii import crc32
from typing import Any

from fovea import _core

FORM = 1  # of what reduce() and reduce_cache() give


def text(kind: str, maker: str | None, args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    shown = [_word(value) for value in args] + [f"{name}={_word(value)}" for name, value in keywords.items()]
    return f"fovea.{kind}{'.' + maker if maker else ''}({', '.join(shown)})"


def _word(value: Any) -> str:
    shape = (len(value),) if isinstance(value, array) else getattr(value, "shape", ())
    return f"<array {tuple(shape)}>" if shape else repr(value)


def reduce(kind: str, maker: str | None, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    return restore, (FORM, kind, maker, args, keywords, _checksum(args))


def _checksum(value: Any, checksum: int = 0) -> int:
    """The checksum of all bytes: weights and bits of masks."""
    for item in value if isinstance(value, tuple) else ():
        checksum = crc32(item, checksum) if isinstance(item, bytes) else _checksum(item, checksum)
    return checksum


def restore(
    form: int, kind: str, maker: str | None, args: tuple[Any, ...], keywords: dict[str, Any], checksum: int
) -> Any:
    if form != FORM:
        raise ValueError(f"the fovea.{kind} is stored in form {form}; this version of fovea knows form {FORM}")
    try:
        if _checksum(args) != checksum:
            raise TypeError("its checksum is wrong")
        made = getattr(_core, kind)
        return (getattr(made, maker) if maker else made)(*args, **keywords)
    except (AttributeError, OverflowError, TypeError) as error:
        raise ValueError(f"the stored fovea.{kind} is damaged: {error}") from error


# A sequence's number is made of how many the cache had made before, and of the lowest place that was free.
_PLACE_BITS = 31


def reduce_cache(
    cache: _core.KVCache, numbers: set[int], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, ...]:
    sequences = {number: cache.save(number) for number in sorted(numbers)}
    end = cache.add()
    cache.remove(end)
    return restore_cache, (FORM, args, keywords, end, sequences)


def restore_cache(
    form: int, args: tuple[Any, ...], keywords: dict[str, Any], end: int, sequences: dict[int, bytes]
) -> _core.KVCache:
    """The cache, whose sequences have their numbers: all that it ever had are made again, in their order."""
    cache: _core.KVCache = restore(form, "KVCache", None, args, keywords, _checksum(args))
    places = {number >> _PLACE_BITS: number & (1 << _PLACE_BITS) - 1 for number in sequences}
    most = 1 + max(places.values(), default=-1)
    held = {}  # sequences that only keep a place
    for made_before in range((end >> _PLACE_BITS) + 1):
        if made_before not in places:
            number = cache.add()
            place = number & (1 << _PLACE_BITS) - 1
            if place < most:
                held[place] = number
            else:
                cache.remove(number)
            continue
        place = places[made_before]
        if place in held:
            cache.remove(held.pop(place))
        if cache.load(sequences.get(number := made_before << _PLACE_BITS | place, b"")) != number:
            raise ValueError("the stored fovea.KVCache contradicts itself")
    for number in held.values():
        cache.remove(number)
    return cache


def reduce_states(
    cache: _core.StateCache, numbers: set[int], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[Any, ...]:
    sequences = {number: cache.save(number) for number in sorted(numbers)}
    end = 1 + max(numbers, default=-1)
    if len(numbers) < cache.max_sequences:  # in a full cache the last number ever given is there
        end = cache.add()
        cache.remove(end)
    return restore_states, (FORM, args, keywords, end, sequences)


def restore_states(
    form: int, args: tuple[Any, ...], keywords: dict[str, Any], end: int, sequences: dict[int, bytes]
) -> _core.StateCache:
    """The cache, whose sequences have their numbers, which are given in ascending order."""
    cache: _core.StateCache = restore(form, "StateCache", None, args, keywords, _checksum(args))
    for number in range(end):
        if number not in sequences:
            cache.remove(cache.add())
        elif cache.load(sequences[number]) != number:
            raise ValueError("the stored fovea.StateCache contradicts itself")
    return cache
