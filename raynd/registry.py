"""Classes known by name: what metrics, initializers and the like are made from (``mx.registry``).

A base class has one table of names, in lower case. Functions over it are made by :func:`get_register_func`,
:func:`get_alias_func` and :func:`get_create_func`; :func:`get_registry` gives a copy of the table.
"""
from __future__ import annotations

import json
import warnings

from .errors import ArgumentError, ShapeError

_TABLES: dict[type, dict[str, type]] = {}


def _table(base_class):
    return _TABLES.setdefault(base_class, {})


def get_registry(base_class) -> dict[str, type]:
    """The registered subclasses of a base class, by name."""
    return dict(_table(base_class))


def get_register_func(base_class, nickname):
    """A class decorator ``register(klass, name=None)``; without a name, the class's own."""
    table = _table(base_class)

    def register(klass, name=None):
        if not isinstance(klass, type) or not issubclass(klass, base_class):
            raise ArgumentError(f"only subclasses of {base_class.__name__} can be registered as a {nickname}, not "
                                f"{klass!r}")
        key = (name or klass.__name__).lower()
        other = table.get(key, klass)
        if other is not klass:
            warnings.warn(f"{nickname} {key!r}: {klass.__module__}.{klass.__name__} replaces "
                          f"{other.__module__}.{other.__name__}", stacklevel=2)
        table[key] = klass
        return klass
    register.__doc__ = f"Class decorator: make a {nickname} known by its class's name in lower case."
    return register


def get_alias_func(base_class, nickname):
    """A class decorator ``alias(*names)``."""
    register = get_register_func(base_class, nickname)

    def alias(*names):
        def add(klass):
            for name in names:
                register(klass, name)
            return klass
        return add
    alias.__doc__ = f"Class decorator: make a {nickname} known by further names."
    return alias


def get_create_func(base_class, nickname):
    """A function ``create(value, *args, **kwargs)``: an instance from itself, a class, a name, a dict
    ``{nickname: name, ...}`` or either of the JSON texts ``["name", {...}]`` and ``{"nickname": "name", ...}``."""
    table = _table(base_class)

    def create(*args, **kwargs):
        value, *args = args if args else (kwargs.pop(nickname, None),)
        if isinstance(value, base_class):
            if args or kwargs:
                raise ArgumentError(f"this {nickname} is made already, so it takes no arguments: {value!r}")
            return value
        if isinstance(value, type) and issubclass(value, base_class):
            return value(*args, **kwargs)
        if isinstance(value, str) and value[:1] in ("[", "{"):
            if args or kwargs:
                raise ArgumentError(f"the text of a {nickname} holds its arguments; it takes no others: {value}")
            value = json.loads(value)
            if isinstance(value, list):
                value, kwargs = value
        if isinstance(value, dict):
            return create(**value)
        if not isinstance(value, str):
            raise ArgumentError(f"a {nickname} or its name is needed, not {value!r}")
        try:
            klass = table[value.lower()]
        except KeyError:
            raise ShapeError(f"there is no {nickname} {value!r}; known are {', '.join(sorted(table))}") from None
        return klass(*args, **kwargs)
    create.__doc__ = f"A {nickname} from itself, its class, its name, or a text or dict of its name and arguments."
    return create
