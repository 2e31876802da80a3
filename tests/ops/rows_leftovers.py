"""Rows of operators that belong to no family: those that stop a gradient or a computation."""
import numpy as np
from table import S, normal, row

row("stop_gradient", ref=lambda data: data, samples=[S(normal(3, 4)), S(normal()), S(normal(0, 2))],
    ints_as="int32 uint8")
row("constraint_check", ref=lambda data, msg="": np.array(True),
    samples=[S(np.ones((2, 3), bool)), S(np.array(True), msg="m"), S(np.ones((0, 2), bool))])
