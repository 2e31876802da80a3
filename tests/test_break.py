"""Traps that once caught the runtime: memory under two ids, what a recording must not bake in, threads, forks."""
from __future__ import annotations

import pytest

import raynd as mx

pytestmark = pytest.mark.usefixtures("each_mode")


def test_a_gradient_shares_no_memory_with_the_head_gradient_nor_with_another():
    x, z = mx.np.ones(3), mx.np.ones(3)
    x.attach_grad(), z.attach_grad()
    with mx.autograd.record():
        y = x + z
    head = mx.np.ones(3)
    y.backward(head, retain_graph=True)
    head[0] = 5
    assert x.grad.tolist() == z.grad.tolist() == [1, 1, 1]
    a, b = mx.autograd.grad(y, [x, z], head)
    a[1], head[2] = 7, 9
    assert [a.tolist(), b.tolist(), head.tolist()] == [[5, 7, 1], [5, 1, 1], [5, 1, 9]]


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)])
def test_results_of_a_program_share_no_memory(part):
    class Block(mx.gluon.HybridBlock):
        def forward(self, x):
            y = x * 2
            return x, y, y, mx.npx.reshape(y, (-1, 1)), x.detach()

    block, whole = Block(), mx.np.ones(4)
    block.hybridize()
    for _ in range(2):
        x = whole[part]
        results = block(x)
        results[0][0], results[1][0], results[3][0] = 5, 6, 7
        x[1] = 8
        assert [r.reshape(-1)[:2].tolist() for r in results] == [[5, 1], [6, 2], [2, 2], [7, 2], [1, 1]]
        assert x[:2].tolist() == [1, 8]
        x[1] = 1
