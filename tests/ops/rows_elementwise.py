"""Rows of the element-wise operators."""
import numpy as np
from table import binary_row, exempt, row, unary_row  # noqa: F401

unary_row("negative", np.negative, ints_as="int32 int8")
unary_row("exp", np.exp, ints_as="int32 int8")
unary_row("tanh", np.tanh)
exempt("tanh_grad", "tanh")
binary_row("add", np.add, ints_as="int32 uint8")
binary_row("multiply", np.multiply)
