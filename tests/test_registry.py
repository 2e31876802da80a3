"""mx.registry: classes by name."""
from __future__ import annotations

import pytest

import raynd as mx
from raynd.errors import ArgumentError


class Shape:
    def __init__(self, sides=0):
        self.sides = sides


register = mx.registry.get_register_func(Shape, "shape")
alias = mx.registry.get_alias_func(Shape, "shape")
create = mx.registry.get_create_func(Shape, "shape")


@alias("box", "Quad")
@register
class Square(Shape):
    pass


def test_an_instance_comes_from_itself_a_class_a_name_a_dict_or_a_text():
    made = Square(4)
    assert create(made) is made
    for value in (create(Square, 4), create("square", sides=4), create("QUAD", 4), create(shape="box", sides=4),
                  create({"shape": "box", "sides": 4}), create('["square", {"sides": 4}]'),
                  create('{"shape": "square", "sides": 4}')):
        assert type(value) is Square and value.sides == 4
    assert mx.registry.get_registry(Shape) == {"square": Square, "box": Square, "quad": Square}


@pytest.mark.parametrize("args, kwargs, words", [
    (("circle",), {}, "there is no shape 'circle'; known are box, quad, square"),
    ((3,), {}, "a shape or its name is needed, not 3"),
    ((), {}, "a shape or its name is needed, not None"),
    ((Square(), 2), {}, "made already"),
    (('["square", {}]',), {"sides": 1}, "holds its arguments"),
])
def test_what_cannot_be_made_says_so(args, kwargs, words):
    with pytest.raises(mx.MXNetError, match=words):
        create(*args, **kwargs)


def test_only_subclasses_are_registered_and_replacing_one_warns():
    with pytest.raises(ArgumentError, match="only subclasses of Shape"):
        register(int)
    with pytest.warns(UserWarning, match="shape 'square': .*Other replaces .*Square"):
        @alias("square")
        class Other(Shape):
            pass
    mx.registry._TABLES[Shape]["square"] = Square
