"""Rows of the output layers, whose gradients are those of losses: checked against formulas, not differences."""
import numpy as np
from scipy.special import expit, softmax
from table import S, exempt, ints, normal, row, uniform


def _softmax(data, label, multi_output=False, preserve_shape=False, **_):
    if multi_output:
        return softmax(data, 1)
    return softmax(data, -1) if preserve_shape else softmax(data, tuple(range(1, data.ndim)))


SAMPLES = [S(normal(4, 3), ints(4, high=3)), S(normal(4, 3), uniform(4, 3, low=0.0, high=1.0)),
           S(normal(2, 3, 4), ints(2, 4, high=3), multi_output=True),
           S(normal(2, 4, 3), ints(2, 4, high=3), preserve_shape=True), S(normal(2, 2, 3), ints(2, high=6)),
           S(normal(0, 3), ints(0)), S(normal(2, 3, 0), ints(2, 0), multi_output=True)]
row("softmax_output", ref=_softmax, samples=SAMPLES, grad=(), second=False)
exempt("softmax_output_grad", "softmax_output")
for _name, _ref in {"linear_regression_output": lambda x, label, **_: x,
                    "mae_regression_output": lambda x, label, **_: x,
                    "logistic_regression_output": lambda x, label, **_: expit(x),
                    "svm_output": lambda x, label, **_: x}.items():
    _labels = ints(3, high=4) if _name == "svm_output" else normal(3, 4)
    row(_name, ref=_ref, samples=[S(normal(3, 4), _labels)], grad=(), second=False)
    exempt(_name + "_grad", _name)
row("make_loss", ref=lambda x, **_: x, samples=[S(normal(3, 4)), S(normal()), S(normal(0, 2))], grad=(), second=False)
exempt("make_loss_grad", "make_loss")
row("gradientmultiplier", ref=lambda x, scalar=1.0, **_: np.array(x), grad=(), second=False,
    samples=[S(normal(3, 4), scalar=0.5), S(normal()), S(normal(0, 2), scalar=-1.0)])


def _sparse(x, average, sparseness_target, penalty, momentum):
    average = momentum * average + (1 - momentum) * x.mean(axis=0)
    return x, average, average


row("kl_sparse_identity", ref=_sparse, grad=(), second=False, tol=4, samples=[
    S(uniform(4, 3, low=0.1, high=0.9), uniform(3, low=0.1, high=0.9), sparseness_target=0.2, penalty=0.5,
      momentum=0.7)])
