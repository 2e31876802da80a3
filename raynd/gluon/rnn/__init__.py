"""Recurrent cells and layers (``mx.gluon.rnn``)."""
from . import conv_rnn_cell, rnn_cell, rnn_layer
from .conv_rnn_cell import *  # noqa: F403
from .rnn_cell import *  # noqa: F403
from .rnn_layer import *  # noqa: F403

__all__ = [*rnn_cell.__all__, *conv_rnn_cell.__all__, *rnn_layer.__all__]
