"""mx.operator and mx.nd.Custom; names and attributes of scopes."""
from __future__ import annotations

import numpy as onp
import pytest

import raynd as mx
from raynd.errors import FallbackWarning, MXNetError

nd, np, gluon = mx.nd, mx.np, mx.gluon


class Scale(mx.operator.CustomOp):
    def __init__(self, factor):
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        aux[0][:] = aux[0] + 1
        self.assign(out_data[0], req[0], in_data[0] * self.factor)
        self.assign(out_data[1], req[1], onp.full(in_data[0].shape, float(is_train), "float32"))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor + in_data[0] * 0 + aux[0] * 0)
        self.assign(in_grad[0], "add" if req[0] != "null" else "null", out_grad[1])


@mx.operator.register("test_scale")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        assert isinstance(factor, str)
        super().__init__(need_top_grad=True)
        self.factor = float(factor)

    def list_outputs(self):
        return ["output", "mode"]

    def list_auxiliary_states(self):
        return ["calls"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], in_shape[0]], [(1,)]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        assert isinstance(ctx, mx.Device) and in_shapes[0] and in_dtypes[0] in (onp.float32, onp.float64)
        return Scale(self.factor)


class Product(mx.operator.CustomOp):
    """Multiplies; the gradient uses the inputs of the forward call."""

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * in_data[1])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * in_data[1])
        self.assign(in_grad[1], req[1], out_grad[0] * in_data[0])


@mx.operator.register("test_product")
class ProductProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["lhs", "rhs"]

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Product()


@pytest.mark.parametrize("module", [nd, np])
def test_values_modes_states_and_gradient(module):
    x, calls = module.array([1.0, 2.0, 3.0]), module.zeros((1,))
    x.attach_grad()
    y, mode = nd.Custom(x, calls, op_type="test_scale", factor=3, name="any")
    assert type(y) is type(x)
    assert y.asnumpy().tolist() == [3, 6, 9] and not mode.asnumpy().any()
    with mx.autograd.record():
        y, mode = nd.Custom(data=x, calls=calls, op_type="test_scale")
        z = (y * y).sum() + mode.sum()
    z.backward()
    assert mode.asnumpy().all() and calls.asnumpy().tolist() == [2]
    assert x.grad.asnumpy().tolist() == [9, 17, 25]      # 2 y * 2 + 1


def test_gradient_is_of_the_recorded_values():
    a, b = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    a.attach_grad("add")
    for _ in range(2):
        with mx.autograd.record():
            y = nd.Custom(a, b, op_type="test_product")
        b[:] = 0
        y.backward()
        b[:] = [5, 7]
    assert a.grad.asnumpy().tolist() == [10, 14]
    with mx.autograd.record():
        y = nd.Custom(a, a, op_type="test_product")
    y.backward()
    with mx.autograd.record():
        y = nd.Custom(a, a, op_type="test_product")
        with pytest.raises(MXNetError, match="second-order"):
            mx.autograd.grad(y, a, create_graph=True)
    out = np.zeros(2)
    assert nd.Custom(a, b, op_type="test_product", out=out) is out
    assert out.asnumpy().tolist() == [10, 21]


def test_no_inputs():
    class Ones(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], onp.ones(out_data[0].shape))

    @mx.operator.register("test_ones")
    class OnesProp(mx.operator.CustomOpProp):
        def __init__(self, length):
            super().__init__()
            self.length = int(length)

        def list_arguments(self):
            return []

        def infer_shape(self, in_shape):
            return [], [(self.length, 2)]

        def infer_type(self, in_type):
            return [], [onp.float64]

        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Ones()

    y = nd.Custom(length=3, op_type="test_ones")
    assert y.shape == (3, 2) and y.dtype == onp.float64 and (y.asnumpy() == 1).all()


def test_errors():
    x = nd.array([1.0])
    for call in (lambda: nd.Custom(x), lambda: nd.Custom(x, op_type="test_product"), lambda: nd.Custom(x, x, x, op_type=
                 "test_product"), lambda: nd.Custom(x, 1, op_type="test_product"),
                 lambda: nd.Custom(x, x, other=x, op_type="test_product")):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(MXNetError, match="Cannot find"):
        nd.Custom(x, op_type="nowhere")
    with pytest.raises(TypeError):
        mx.operator.register("bad")(Product)
    with pytest.raises(ValueError):
        nd.Custom(x, nd.zeros((3,)), op_type="test_scale")      # the auxiliary state has the wrong shape

    @mx.operator.register("test_failing")
    class FailingProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            class Failing(mx.operator.CustomOp):
                def forward(self, is_train, req, in_data, out_data, aux):
                    raise AssertionError("no")
            return Failing()
    with pytest.raises(MXNetError, match=r"test_failing.forward: AssertionError: no"):
        nd.Custom(x, op_type="test_failing")


def test_a_failed_value_reaches_who_reads_the_output():
    @mx.operator.register("test_cholesky")
    class CholeskyProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            class Cholesky(mx.operator.CustomOp):
                def forward(self, is_train, req, in_data, out_data, aux):
                    out_data[0][:] = nd.linalg.potrf(in_data[0])

                def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
                    self.assign(in_grad[0], req[0], nd.linalg.potrf(out_grad[0]))
            return Cholesky()

    x = nd.zeros((2, 2))
    y = nd.Custom(x, op_type="test_cholesky")
    with pytest.raises(MXNetError, match="positive definite"):
        y.wait_to_read()
    x[:] = nd.array([[1, 0], [0, 1]])
    x.attach_grad()
    with mx.autograd.record():
        y = nd.Custom(x, op_type="test_cholesky")
    assert y.asnumpy().tolist() == [[1, 0], [0, 1]]
    with pytest.raises(MXNetError, match="positive definite"):
        y.backward(nd.zeros((2, 2)))
        x.grad.wait_to_read()


def test_a_block_with_it_stays_eager():
    class Block(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.Custom(x, x + 1, op_type="test_product")

    net = Block()
    net.hybridize()
    x = nd.array([2.0])
    x.attach_grad()
    with pytest.warns(FallbackWarning) as caught:
        for _ in range(2):
            with mx.autograd.record():
                y = net(x)
            y.backward()
    assert y.asscalar() == 6 and x.grad.asscalar() == 5 and len(caught) == 1


def test_names_and_attributes():
    with mx.name.NameManager() as names:
        assert mx.name.current() is names
        assert [names.get(None, "fc"), names.get("", "fc"), names.get("mine", "fc")] == ["fc0", "fc1", "mine"]
        with mx.name.Prefix("net_"):
            assert mx.name.current().get(None, "fc") == "net_fc0" and mx.name.current().get("a", "fc") == "net_a"
    assert mx.name.current() is not names
    with mx.AttrScope(a="1", b="2"):
        with mx.attribute.AttrScope(b="3") as inner:
            assert mx.attribute.current() is inner
            assert inner.get({"c": "4"}) == {"a": "1", "b": "3", "c": "4"}
        assert inner.get(None) == {"b": "3"} and mx.attribute.current().get(None) == {"a": "1", "b": "2"}
    assert mx.attribute.current().get(None) == {}
    with pytest.raises(ValueError):
        mx.AttrScope(a=1)
