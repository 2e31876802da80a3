"""The log likelihood of Hawkes processes: points that make further points of their kind more likely for a while.

A point of mark k has the intensity ``lda[k] + alpha[k] * beta[k] * s[k]``, where ``s[k]`` sums ``exp(-beta[k] * age)``
over the earlier points of that mark. ``s`` decays from point to point of a mark and grows by 1 at each, and the
integral of the intensity follows from its ends alone:

    log likelihood = sum of log(intensity) at the points
                     - sum over k of lda[k] * max_time + alpha[k] * (state[k] + points of mark k - s[k](max_time))

Only the decay goes from point to point, over all sequences at once; the gradient goes back the same way.
"""
from __future__ import annotations

from ..errors import ArgumentError, ShapeError
from ..spec import ArraySpec, is_float, spec
from .registry import operator
from .softmax import wide

_INPUTS = "lda, alpha, beta, state, lags, marks, valid_length, max_time"


def _infer(lda, alpha, beta, state, lags, marks, valid_length, max_time):
    if not isinstance(lda, ArraySpec) or lda.ndim != 2:
        raise ShapeError(f"hawkesll: lda must be (sequences, marks), not of shape {getattr(lda, 'shape', ())}")
    if not isinstance(lags, ArraySpec) or lags.ndim != 2:
        raise ShapeError(f"hawkesll: lags must be (sequences, points), not of shape {getattr(lags, 'shape', ())}")
    n, k = lda.shape
    points = (n, lags.shape[1])
    wanted = {"alpha": (alpha, (k,)), "beta": (beta, (k,)), "state": (state, (n, k)), "lags": (lags, points),
              "marks": (marks, points), "valid_length": (valid_length, (n,)), "max_time": (max_time, (n,))}
    for name, (x, shape) in wanted.items():
        if not isinstance(x, ArraySpec) or x.shape != shape:
            raise ShapeError(f"hawkesll: {name} must have shape {shape} for lda of shape {lda.shape} and lags of shape "
                             f"{lags.shape}, not {getattr(x, 'shape', ())}")
        if name not in ("marks", "valid_length") and x.dtype != lda.dtype:
            raise ArgumentError(f"hawkesll: {name} is {x.dtype} and lda {lda.dtype}; use astype")
    if not is_float(lda.dtype):
        raise ArgumentError(f"hawkesll: lda must be floating, not {lda.dtype}")
    if marks.dtype.kind not in "iu":
        raise ArgumentError(f"hawkesll: marks must hold integers, not {marks.dtype}; use astype('int32')")
    return spec((n,), lda.dtype), spec((n, k), lda.dtype)


class _Points:
    """The points of all sequences, the time axis first, with what each depends on. Cells number (sequence, mark); what
    is not a point has a cell of its own behind these, one for each sequence."""

    def __init__(self, xp, lda, alpha, beta, state, lags, marks, valid_length, max_time):
        self.xp, (n, k), count = xp, lda.shape, lags.shape[1]
        self.lda, self.alpha, self.beta, self.state, self.end = (wide(xp, v) for v in (lda, alpha, beta, state,
                                                                                       max_time))
        self.valid = xp.arange(count)[:, None] < valid_length
        marks = marks.T.astype("int64")
        if n and bool((valid_length > count).any()):
            raise ValueError(f"hawkesll: a valid_length is over {count}, the number of points")
        if bool((self.valid & ((marks < 0) | (marks >= k))).any()):
            raise ValueError(f"hawkesll: a mark lies outside 0 to {k - 1}")
        self.mark = xp.where(self.valid, marks, 0)
        row = xp.arange(n)
        self.cell = xp.where(self.valid, row * k + self.mark, n * k + row)
        self.gap, last = self._gaps(wide(xp, lags))
        self.last_gap = self.end[:, None] - last
        self.decay = self._of_points(xp.exp(-self.of_mark(self.beta) * self.gap))
        self.excitation, grown = self._excitations()
        self.rest = xp.exp(-self.beta * self.last_gap)
        self.out_state = grown * self.rest
        lda = self.lda[row, self.mark] if k else xp.zeros_like(self.gap)
        self.intensity = xp.where(self.valid, lda + self.of_mark(self.alpha * self.beta) * self.excitation, 1)

    def of_mark(self, values):
        """The values (marks,) of the mark of each point."""
        return values[self.mark] if values.size else self.xp.zeros(self.mark.shape, values.dtype)

    def _of_points(self, x):
        return self.xp.where(self.valid, x, 0)

    def cells(self, start):
        """A flat array for each cell from (sequences, marks), and its view of that shape."""
        flat = self.xp.zeros(start.size + start.shape[0], start.dtype)
        inner = flat[:start.size].reshape(start.shape)
        inner[...] = start
        return flat, inner

    def _gaps(self, lags):
        """(time of each point since the one before of its mark, the time of the last of each mark)."""
        time = self._of_points(lags.T).cumsum(axis=0)
        last, inner = self.cells(self.xp.zeros_like(self.state))
        gap = self.xp.empty_like(time)
        for j, cell in enumerate(self.cell):
            gap[j] = time[j] - last[cell]
            last[cell] = time[j]
        return gap, inner

    def _excitations(self):
        """(``s`` of its mark just before each point, ``s`` after the last points)."""
        value, inner = self.cells(self.state)
        result = self.xp.empty_like(self.gap)
        for j, cell in enumerate(self.cell):
            result[j] = self.decay[j] * value[cell]
            value[cell] = result[j] + 1
        return result, inner

    def sums(self, x):
        """Sums over the points of each sequence and mark: (sequences, marks)."""
        n, k = self.state.shape
        flat = self.xp.bincount(self.cell.reshape(-1), x.reshape(-1), minlength=n * k + n)
        return flat[:n * k].reshape(n, k).astype(x.dtype)

    def growth(self):
        """What alpha is multiplied by in the integral of the intensity."""
        return self.state + self.sums(self.valid.astype(self.state.dtype)) - self.out_state


def _hawkesll(xp, *x):
    """Log likelihoods (sequences,) of Hawkes processes, and their state (sequences, marks) at ``max_time``.

    ``lda`` (sequences, marks): background intensities; ``alpha``, ``beta`` (marks,): how many points one brings about,
    and how fast that decays; ``state`` (sequences, marks): sum of ``exp(-beta * age)`` over the points before time 0;
    ``lags``, ``marks`` (sequences, points): time since the point before, and integers below the number of marks;
    ``valid_length`` (sequences,): how many points there are; ``max_time`` (sequences,): when observation ended. All
    floating arrays but ``valid_length`` have gradients, through both outputs (in MXNet lda, alpha and beta, through the
    first). Source: Bacry, Mastromatteo and Muzy 2015, Hawkes processes in finance.
    """
    p = _Points(xp, *x)
    integral = (p.lda * p.end[:, None] + p.alpha * p.growth()).sum(axis=1)
    return xp.log(p.intensity).sum(axis=0) - integral, p.out_state


def _grad(xp, dy, d_state, *x):
    p = _Points(xp, *x)
    dy, d_state = wide(xp, dy)[:, None], wide(xp, d_state)
    share = xp.where(p.valid, dy.T / p.intensity, 0)                       # gradient of each intensity
    d_rest = (d_state + p.alpha * dy) * p.out_state                        # times minus a gap or beta
    g_lda = p.sums(share) - p.end[:, None] * dy
    g_alpha = (p.sums(share * p.excitation) * p.beta - p.growth() * dy).sum(axis=0)
    decayed, g_lags, g_state = _backward(p, share, d_state + p.alpha * dy, -p.beta * d_rest)
    g_beta = (p.sums(share * p.excitation) * p.alpha - p.sums(p.gap * decayed) - p.last_gap * d_rest).sum(axis=0)
    g_time = -(p.lda * dy + p.beta * d_rest).sum(axis=1)
    return g_lda, g_alpha, g_beta, g_state - p.alpha * dy, g_lags, g_time


def _backward(p, share, d_out_state, d_last_gap):
    """(gradient of the logarithm of each decay, gradients of lags and of the state at time 0)."""
    direct = share * p.of_mark(p.alpha * p.beta)
    ahead, inner = p.cells(d_out_state * p.rest)
    decayed = p.xp.empty_like(p.gap)
    for j in range(len(p.gap) - 1, -1, -1):
        total = direct[j] + ahead[p.cell[j]]
        decayed[j] = total * p.excitation[j]
        ahead[p.cell[j]] = total * p.decay[j]
    d_gap = p.xp.where(p.valid, -p.of_mark(p.beta) * decayed, 0)
    following, _ = p.cells(d_last_gap)                                     # the gap after a point shrinks with its time
    d_time = p.xp.empty_like(p.gap)
    for j in range(len(p.gap) - 1, -1, -1):
        d_time[j] = d_gap[j] - following[p.cell[j]]
        following[p.cell[j]] = d_gap[j]
    d_time = p.xp.where(p.valid, d_time, 0)
    return decayed, d_time[::-1].cumsum(axis=0)[::-1].T, inner


def _vjp(F, dy, x, y):
    # like inputs, since what is read may not depend on which gradients there are
    dy = [F.zeros_like(like) if g is None else g for g, like in zip(dy, (x[7], x[3]))]
    lda, alpha, beta, state, lags, max_time = F.hawkesll_grad(*dy, *x)
    return lda, alpha, beta, state, lags, None, None, max_time


operator("hawkesll", f"{_INPUTS}, out=None", infer=_infer, kernel=_hawkesll, vjp=_vjp, nd="_contrib_hawkesll",
         first_order_only=True)
operator("hawkesll_grad", f"dy, d_state, {_INPUTS}", kernel=_grad, first_order_only=True,
         infer=lambda dy, d_state, lda, alpha, beta, state, lags, marks, valid_length, max_time: (
             lda, alpha, beta, state, lags, max_time))
