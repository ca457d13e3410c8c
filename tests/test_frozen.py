"""Classes made on first use are what `dataclass(frozen=True)` makes at once."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from dataclasses import field
from typing import Generic, TypeVar

import pytest

from codeinfo.frozen import changed, frozen

T = TypeVar("T")


@frozen
class Point:
    """A place."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False)

    @property
    def total(self) -> int:
        return self.x + self.y


@frozen
class Named(Point):
    name: str = "origin"


@frozen
class Box(Generic[T]):
    content: T


@frozen
class Carried:
    value: int


@frozen
class Awkward:
    """Its fields are called as anything in `__init__` might be."""

    values: int
    self_: int
    known: list[int] = field(default_factory=list)
    fields: int = 3


def fresh() -> type[Point]:
    """The same class once more, not made yet."""
    namespace: dict[str, object] = {"__annotations__": {"x": "int", "y": "int"}, "y": 2, "__module__": __name__}
    return frozen(type("Fresh", (), namespace))  # type: ignore[arg-type]


def test_it_is_a_frozen_dataclass() -> None:
    point = Point(1)
    assert (point.x, point.y, point.tags, point.total) == (1, 2, [], 3)
    assert point == Point(1, tags=["other"]) != Point(1, 3)
    assert hash(point) == hash(Point(1)) if Point.__hash__ else True
    assert repr(Point(1)) == "Point(x=1, y=2, tags=[])"
    assert Point.__doc__ == "A place."
    assert dataclasses.replace(point, y=5) == Point(1, 5)
    assert dataclasses.asdict(point) == {"x": 1, "y": 2, "tags": []}
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    assert Point(1).tags is not Point(1).tags


def test_some_values_can_be_exchanged() -> None:
    point = Point(1, tags=["a"])
    other = changed(point, y=5)
    assert other == dataclasses.replace(point, y=5)
    assert (point.y, other.tags) == (2, ["a"])
    with pytest.raises(TypeError, match="Point has no z"):
        changed(point, z=1)


def test_fields_may_have_any_name() -> None:
    one = Awkward(1, 2)
    assert (one.values, one.self_, one.known, one.fields) == (1, 2, [], 3)
    assert dataclasses.replace(one, known=[4], fields=5) == Awkward(1, self_=2, known=[4], fields=5)
    assert one.known is not Awkward(1, 2).known


def test_fields_can_be_asked_for_before_there_is_an_instance() -> None:
    cls = fresh()
    assert dataclasses.is_dataclass(cls)
    assert [one.name for one in dataclasses.fields(cls)] == ["x", "y"]
    assert cls(4).y == 2


def test_nothing_is_made_before_it_is_needed() -> None:
    cls = fresh()
    assert "__eq__" not in vars(cls)
    cls(1)
    assert "__eq__" in vars(cls)


def test_bases_are_made_first() -> None:
    assert [one.name for one in dataclasses.fields(Named)] == ["x", "y", "tags", "name"]
    assert Named(1, name="here").total == 3
    assert Named(1) != Point(1)


def test_generic_classes_and_pickles() -> None:
    assert Box[int](3) == Box(3)
    assert pickle.loads(pickle.dumps(Carried(7))) == Carried(7)


def test_many_threads_may_be_the_first() -> None:
    for _ in range(20):
        cls, made = fresh(), list[Point]()
        threads = [threading.Thread(target=lambda made=made, cls=cls: made.append(cls(1))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [cls(1)] * 8
