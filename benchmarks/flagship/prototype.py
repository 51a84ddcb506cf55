"""The rule of Budgetron on dense rows and two classes, with a switch for each thing that was tried and rejected.

Needs `pip install numba`, which the package does not depend on. Symbols as in docs/algorithms/budgetron.md:
z standardised features and bias, k kernel row, ψ anchors' row in an orthonormal basis; W, S and W_i, S_i the linear
part and its variances, shared and own; U, M and w_i, N_i the same of the kernel part; P the inverse Gram matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SHIPPED = ((1, 0.1, 0, 0, 0), (1, 10, 0, 0, 0), (3, 0.1, 0, 0, 0.1), (3, 0.1, 3, 0.1, 0), (0, 0, 10, 0.1, 0),
           (0, 0, 1, 10, 0))  # fmt: skip
NOTED = ((1, 0.1, 0, 0, 0), (10, 0.1, 0, 0, 0), (1, 1, 0, 0, 0), (0, 0, 10, 0.5, 0), (0, 0, 3, 0.1, 0),
         (0, 0, 10, 2, 0), (1, 0.1, 10, 0.5, 0), (1, 1, 10, 0.5, 0))  # fmt: skip


@dataclass(frozen=True)
class Switches:
    """As shipped; every field is one open question of NOTES."""

    beliefs: tuple[tuple[float, ...], ...] = SHIPPED  # (s_ℓ, ρ_ℓ, s, ρ, floor)
    eta: float = 0.1
    own_rank: int = 16
    full_own: bool = False  # N_i a matrix, not a diagonal
    probit: bool = False  # p = σ(f/√(1 + πV/8))
    residual: bool = True  # what the span cannot express damps the step
    scaled: bool = True  # columns centred, scaled, clipped at 3 and divided by √d
    negligible: float = 1e-3  # τ: smaller steps are skipped
    share: float = 1e-4  # fixed share
    patience: int = 10_000  # a kernel belief below 0.01 for so long is dropped; 0: never
    drop_below: float = 0.0  # or as soon as its weight is below this
    eager: bool = True  # while there is room store what has margin < 1, not mistakes alone
    spread_score: bool = True  # evict by (U² + M_jj)/P_jj, not U²/P_jj


def run(
    X: Floats, tasks: NDArray[Any], y: NDArray[Any], budget: int, gamma: float, s: Switches
) -> tuple[Floats, float]:
    """Probabilities before each update, and the share of steps that were skipped."""
    keys = np.unique(tasks, return_inverse=True)[1].astype(np.int64)
    rank = min(s.own_rank, budget // 8)
    return _run(
        np.ascontiguousarray(X, dtype=np.float64), keys, int(keys.max()) + 1, np.asarray(y, dtype=np.float64),
        np.array(s.beliefs, dtype=np.float64), budget, gamma, rank, s.eta, s.full_own, s.probit, s.residual, s.scaled,
        s.negligible, s.share, s.patience, s.drop_below, s.eager, s.spread_score,
    )  # fmt: skip


@nb.njit(cache=True)
def _sigmoid(f: float) -> float:
    return 1 / (1 + math.exp(-f)) if f >= 0 else math.exp(f) / (1 + math.exp(f))


@nb.njit(cache=True)
def _run(X, task, n_tasks, y, beliefs, B, gamma, r, eta, full_own, probit, residual, scaled,
         tau, share, patience, drop_below, eager, spread_score):  # fmt: skip
    n, d = X.shape
    D, nb_ = d + 1, len(beliefs)
    W, S = np.zeros((nb_, D)), np.zeros((nb_, D))
    Wi, Si = np.zeros((nb_, n_tasks, D)), np.zeros((nb_, n_tasks, D))
    wi, Ni = np.zeros((nb_, n_tasks, r)), np.zeros((nb_, n_tasks, r, r))
    for b in range(nb_):
        S[b], Si[b] = beliefs[b, 0], beliefs[b, 0] * beliefs[b, 1]
        for a in range(r):
            Ni[b, :, a, a] = beliefs[b, 2] * beliefs[b, 3]
    P, L, SX = np.zeros((B + 1, B + 1)), np.zeros((r, r)), np.zeros((B + 1, d))
    U, M = np.zeros((nb_, B + 1)), np.zeros((nb_, B + 1, B + 1))
    size, anchors = 0, 0
    mean, m2 = np.zeros(d), np.zeros(d)
    weight, idle, live = np.full(nb_, 1.0 / nb_), np.zeros(nb_), np.ones(nb_, np.bool_)
    z, psi, f, V = np.ones(D), np.zeros(r), np.zeros(nb_), np.zeros(nb_)
    out = np.zeros(n)
    steps, skipped = 0, 0
    for t in range(n):
        i = task[t]
        if scaled:
            for j in range(d):
                z[j] = 0.0
                if m2[j] > 0:
                    z[j] = max(-3.0, min(3.0, (X[t, j] - mean[j]) / math.sqrt(m2[j] / t))) / math.sqrt(d)
        else:
            z[:d] = X[t]
        k = np.zeros(B + 1)
        for a in range(size):
            k[a] = math.exp(-gamma * ((SX[a] - X[t]) ** 2).sum())
        alpha = P[:size, :size] @ k[:size]
        delta2 = max(0.0, 1.0 - alpha @ k[:size])
        psi[:] = 0.0
        psi[:anchors] = L[:anchors, :anchors] @ k[:anchors]
        outside = max(0.0, 1.0 - psi @ psi)
        stored = False
        for phase in range(2):
            for b in range(nb_):
                f[b] = W[b] @ z + Wi[b, i] @ z
                V[b] = (S[b] * z * z).sum() + (Si[b, i] * z * z).sum()
                if beliefs[b, 2] > 0:
                    f[b] += U[b, :size] @ k[:size] + wi[b, i] @ psi
                    V[b] += max(0.0, k[:size] @ (M[b, :size, :size] @ k[:size])) + psi @ (Ni[b, i] @ psi)
            if phase == 1:
                break
            mixed, total = 0.0, 0.0
            for b in range(nb_):
                p = _sigmoid(f[b] / math.sqrt(1 + math.pi * V[b] / 8) if probit else f[b])
                mixed += weight[b] * p
                weight[b] *= max(p if y[t] > 0 else 1 - p, 1e-15)
                total += weight[b]
            out[t] = mixed
            sure = min(max(mixed, 1e-15), 1 - 1e-15)
            margin = (1 if y[t] > 0 else -1) * math.log(sure / (1 - sure))
            top = weight.max() / total
            for b in range(nb_):
                if live[b]:
                    weight[b] = (1 - share) * weight[b] / total + share / live.sum()
                    idle[b] = idle[b] + 1 if weight[b] < 0.01 else 0
                    gone = beliefs[b, 2] > 0 and patience > 0 and idle[b] >= patience
                    if gone or weight[b] < drop_below * top:
                        live[b], weight[b] = False, 0.0
            weight /= weight.sum()
            if delta2 <= eta * eta or not (margin <= 0 or (eager and size < B and margin < 1)):
                break
            stored = True
            e = np.append(-alpha, 1.0)
            at = size + 1
            P[:at, :at] += np.outer(e, e) / delta2
            for b in range(nb_):
                U[b, size] = 0.0
                M[b, :at, :at] += beliefs[b, 2] * np.outer(e, e) / delta2
            SX[size], k[size] = X[t], 1.0
            if anchors < r and anchors == size:
                L[anchors, :at] = e / math.sqrt(delta2)
                psi[anchors] = math.sqrt(delta2)
                anchors, outside = anchors + 1, 0.0
            size += 1
            if size > B:
                worst, gone_at = np.inf, -1
                for a in range(anchors, size - 1):
                    score = 0.0
                    for b in range(nb_):
                        score += weight[b] * (U[b, a] ** 2 + (M[b, a, a] if spread_score else 0.0)) / P[a, a]
                    if score < worst:
                        worst, gone_at = score, a
                g = -P[:size, gone_at] / P[gone_at, gone_at]
                g[gone_at] = 0.0
                for b in range(nb_):
                    U[b, :size] += U[b, gone_at] * g
                    row, own = M[b, gone_at, :size].copy(), M[b, gone_at, gone_at]
                    M[b, :size, :size] += np.outer(g, row) + np.outer(row, g) + own * np.outer(g, g)
                P[:size, :size] -= np.outer(P[:size, gone_at], P[gone_at, :size]) / P[gone_at, gone_at]
                size -= 1
                P[gone_at] = P[size]  # the row, then the column: so the corner comes along
                P[:, gone_at] = P[:, size]
                SX[gone_at], k[gone_at] = SX[size], k[size]
                for b in range(nb_):
                    U[b, gone_at] = U[b, size]
                    M[b, gone_at] = M[b, size]
                    M[b, :, gone_at] = M[b, :, size]
                P[size], P[:, size] = 0.0, 0.0
                M[:, size], M[:, :, size], k[size] = 0.0, 0.0, 0.0
        for b in range(nb_):
            if not live[b]:
                continue
            q = _sigmoid(f[b])
            h, v = q * (1 - q), V[b]
            if residual and beliefs[b, 2] > 0:
                v += beliefs[b, 2] * ((0.0 if stored else delta2) + beliefs[b, 3] * outside)
            steps += 1
            if abs(y[t] - q) * v < tau:
                skipped += 1
                continue
            G, c = (y[t] - q) / (1 + h * v), h / (1 + h * v)
            if beliefs[b, 0] > 0:
                floor = beliefs[b, 4] * beliefs[b, 0]
                for j in range(D):
                    step, own = S[b, j] * z[j], Si[b, i, j] * z[j]
                    W[b, j] += G * step
                    Wi[b, i, j] += G * own
                    S[b, j] = max(S[b, j] / (1 + h * step * z[j]), floor)
                    Si[b, i, j] = max(Si[b, i, j] / (1 + h * own * z[j]), floor * beliefs[b, 1])
            if beliefs[b, 2] > 0:
                Mk = M[b, :size, :size] @ k[:size]
                U[b, :size] += G * Mk
                M[b, :size, :size] -= c * np.outer(Mk, Mk)
                Np = Ni[b, i] @ psi
                wi[b, i] += G * Np
                if full_own:
                    Ni[b, i] -= c * np.outer(Np, Np)
                else:
                    for a in range(r):
                        Ni[b, i, a, a] /= 1 + h * Np[a] * psi[a]
        away = X[t] - mean
        mean += away / (t + 1)
        m2 += away * (X[t] - mean)
    return out, skipped / max(steps, 1)
