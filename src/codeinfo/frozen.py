"""`frozen`: dataclasses that are made when they are first used.

Making a frozen dataclass compiles six methods, which takes about a millisecond. A command loads a hundred of them and
uses a third: together with numpy they were most of the time between typing a search and seeing its results. So the
decorator only leaves a note; the first instance, or the first look at the fields, makes the class what
`dataclass(frozen=True)` would have made it. Only `__init__` is compiled even then, in a form that is nearly three times
as quick: the other methods are shared.
"""

from __future__ import annotations

import threading
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_FIELDS = "__dataclass_fields__"
_LEFT_ALONE = frozenset(
    {"__dict__", "__weakref__", "__module__", "__qualname__", "__doc__", "__annotations__", _FIELDS}
)
_making = threading.RLock()  # reentrant: a class is made after its bases


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    note = _ToBeMade(cls)

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        note.make()
        cls.__init__(self, *args, **kwargs)  # by now the real one

    setattr(cls, _FIELDS, note)
    cls.__init__ = first  # type: ignore[method-assign]
    return cls


def instance(cls: type[T], values: dict[str, Any]) -> T:
    """An instance from the values of all its fields, twice as quick as calling the class: for many rows."""
    getattr(cls, _FIELDS)  # makes the class if nobody has
    made = object.__new__(cls)
    object.__setattr__(made, "__dict__", values)
    return made


def changed(one: T, **values: Any) -> T:
    """Another instance with some values exchanged: `dataclasses.replace` in a tenth of its time."""
    if not values.keys() <= getattr(one, _FIELDS).keys():
        raise TypeError(f"{type(one).__name__} has no {', '.join(values.keys() - getattr(one, _FIELDS).keys())}")
    return instance(type(one), {**one.__dict__, **values})


class _ToBeMade:
    """Stands for the fields of a class until somebody asks for them."""

    def __init__(self, cls: type[Any]) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        self.make()
        return vars(self._cls)[_FIELDS]

    def make(self) -> None:
        """Made aside and then copied: no thread ever sees the class without a method that it had or will have."""
        cls = self._cls
        with _making:
            if vars(cls)[_FIELDS] is not self:
                return
            own = {name: value for name, value in vars(cls).items() if name not in ("__init__", _FIELDS, "__dict__")}
            own.pop("__weakref__", None)
            own["__doc__"] = own["__doc__"] or cls.__name__  # or else a signature would be composed for it
            kind: Any = type(cls)
            model = dataclass(init=False, frozen=True, eq=False, repr=False)(kind(cls.__name__, cls.__bases__, own))
            made = vars(model)
            for name in own.keys() - made.keys():
                delattr(cls, name)  # a default that is made anew for each instance
            shared = {name: method for name, method in _SHARED.items() if name not in own}
            for name, value in {**made, **shared, "__init__": _filling(made[_FIELDS], cls)}.items():
                if name not in _LEFT_ALONE and vars(cls).get(name) is not value:
                    setattr(cls, name, value)
            setattr(cls, _FIELDS, made[_FIELDS])


def _filling(fields: dict[str, Field[Any]], cls: type[Any]) -> Any:
    """An `__init__` that writes into the instance's dictionary, past the method that refuses changes."""
    known: dict[str, Any] = {"__builtins__": {}, "_NONE": _NONE}
    parameters, lines = ["self"], ["  __own = self.__dict__"]
    for at, (name, one) in enumerate(fields.items()):
        parameter, value = name, name
        if one.default_factory is not MISSING:
            known[f"_make{at}"] = one.default_factory
            parameter, value = f"{name}=_NONE", f"_make{at}() if {name} is _NONE else {name}"
        elif one.default is not MISSING:
            known[f"_default{at}"] = one.default
            parameter = f"{name}=_default{at}"
        parameters.append(parameter)
        lines.append(f"  __own[{name!r}] = {value}")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *lines]), known)
    made = known["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


_NONE = object()


def _compared(value: Any) -> tuple[Any, ...]:
    return tuple([getattr(value, one.name) for one in getattr(value, _FIELDS).values() if one.compare])


def _is_equal(self: Any, other: Any) -> bool:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hashed(self: Any) -> int:
    return hash(_compared(self))


def _shown(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in getattr(self, _FIELDS).values() if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refused(self: object, name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")


_SHARED = {
    "__eq__": _is_equal,
    "__hash__": _hashed,
    "__repr__": _shown,
    "__setattr__": _refused,
    "__delattr__": _refused,
}
