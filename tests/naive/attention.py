"""Attention kernels, head by head and token by token; the MLP."""

import math

import numpy as np


def sees(i, j, n, causal, s):
    """Whether token i sees token j: always, or iff s_j <= s_i."""
    if not causal:
        return True
    if s is None:
        s = [(k + 1) / n for k in range(n)]
    return bool(s[j] <= s[i])


def unit(y):
    """N(y) = y / |y|."""
    length = math.sqrt(float(y @ y))
    if length == 0.0:
        raise ValueError("the zero vector has no direction")
    return y / length


def units(x):
    """N applied to each token."""
    return np.array([unit(y) for y in np.asarray(x, dtype=float)])


def tangent(x, y):
    """P_x y = y - <x, y> x, for one token x and one vector y."""
    return y - float(x @ y) * x


def attend(P, x, V):
    """Gamma_i = sum_j P_ij V x_j."""
    x, V = np.asarray(x, dtype=float), np.asarray(V, dtype=float)
    n = len(x)
    gamma = np.zeros((n, V.shape[0]))
    for i in range(n):
        for j in range(n):
            gamma[i] += P[i, j] * (V @ x[j])
    return gamma


def scores(x, A):
    """S_ij = <A x_i, x_j>."""
    x, A = np.asarray(x, dtype=float), np.asarray(A, dtype=float)
    n = len(x)
    S = np.zeros((n, n))
    for i in range(n):
        query = A @ x[i]
        for j in range(n):
            S[i, j] = float(query @ x[j])
    return S


def l2_scores(x, Q, K):
    """S_ij = -|Q x_i - K x_j|^2."""
    x, Q, K = (np.asarray(a, dtype=float) for a in (x, Q, K))
    n = len(x)
    S = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            gap = Q @ x[i] - K @ x[j]
            S[i, j] = -float(gap @ gap)
    return S


def normalized_rows(S, w, causal, s):
    """P_ij = w_j e^{S_ij} / sum_l w_l e^{S_il}, l over what i sees."""
    n = len(S)
    P = np.zeros((n, n))
    for i in range(n):
        visible = [j for j in range(n) if sees(i, j, n, causal, s)]
        top = max(S[i, j] for j in visible)
        Z = sum(w[j] * math.exp(S[i, j] - top) for j in visible)
        for j in visible:
            P[i, j] = w[j] * math.exp(S[i, j] - top) / Z
    return P


def plain_rows(S, w, kernel, causal, s):
    """P_ij = w_j kernel(S_ij) over what i sees; rows do not sum to 1, and nothing is renormalized."""
    n = len(S)
    P = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if sees(i, j, n, causal, s):
                P[i, j] = w[j] * kernel(S[i, j])
    return P


def over_their_sum(P):
    """P_ij / sum_l P_il; a row whose sum is 0 stays 0."""
    n = len(P)
    out = np.zeros((n, n))
    for i in range(n):
        total = sum(P[i, j] for j in range(n))
        for j in range(n):
            out[i, j] = P[i, j] / total if total != 0 else 0.0
    return out


def softmax_matrix(x, w, A, causal=False, s=None):
    """P_ij = w_j e^{<A x_i, x_j>} / sum_l w_l e^{<A x_i, x_l>}."""
    return normalized_rows(scores(x, A), w, causal, s)


def l2_matrix(x, w, Q, K, causal=False, s=None):
    """P_ij = w_j e^{-|Q x_i - K x_j|^2} / sum_l w_l e^{-|Q x_i - K x_l|^2}."""
    return normalized_rows(l2_scores(x, Q, K), w, causal, s)


def unnormalized_matrix(x, w, A, causal=False, s=None):
    """P_ij = w_j e^{<A x_i, x_j>}."""
    return plain_rows(scores(x, A), w, math.exp, causal, s)


def linear_matrix(x, w, A, causal=False, s=None):
    """P_ij = w_j <A x_i, x_j>."""
    return plain_rows(scores(x, A), w, lambda a: a, causal, s)


def relu_matrix(x, w, A, causal=False, s=None, power=1, normalized=False):
    """P_ij = w_j max(0, <A x_i, x_j>)^power, over its sum in each row if normalized."""
    P = plain_rows(scores(x, A), w, lambda a: max(0.0, a) ** power, causal, s)
    return over_their_sum(P) if normalized else P


def cauchy_matrix(x, w, A, causal=False, s=None):
    """P_ij = w_j / (1 + <A x_i, x_j>^2), over its sum in each row."""
    return over_their_sum(plain_rows(scores(x, A), w, lambda a: 1.0 / (1.0 + a * a), causal, s))


def sigmoid_matrix(x, w, A, causal=False, s=None, normalized=False):
    """P_ij = w_j / (1 + e^{-<A x_i, x_j>}), over its sum in each row if normalized."""

    def logistic(a):
        if a >= 0.0:
            return 1.0 / (1.0 + math.exp(-a))
        return math.exp(a) / (1.0 + math.exp(a))

    P = plain_rows(scores(x, A), w, logistic, causal, s)
    return over_their_sum(P) if normalized else P


def hardmax_matrix(x, w, A, causal=False, s=None, rule="self", tie=1e-9):
    """P_ij = w_j / sum_{l in C_i} w_l for j in C_i = argmax_j <A x_i, x_j>, else 0.

    rule "self": over every visible j, i included. rule "others": only over visible j with x_j != x_i;
    if there is none, C_i = {i}. Scores within tie (1 + |max|) of the maximum are tied; tokens with
    |x_j - x_i| <= tie (1 + |x_i|) are at the same place.
    """
    if rule not in ("self", "others"):
        raise ValueError(f"rule is {rule!r}; it must be 'self' or 'others'")
    x = np.asarray(x, dtype=float)
    n = len(x)
    S = scores(x, A)
    P = np.zeros((n, n))
    for i in range(n):
        candidates = []
        for j in range(n):
            if not sees(i, j, n, causal, s):
                continue
            gap = x[j] - x[i]
            same_place = math.sqrt(gap @ gap) <= tie * (1.0 + math.sqrt(x[i] @ x[i]))
            if rule == "others" and same_place:
                continue
            candidates.append(j)
        if not candidates:
            P[i, i] = 1.0
            continue
        top = max(S[i, j] for j in candidates)
        tied = [j for j in candidates if S[i, j] >= top - tie * (1.0 + abs(top))]
        mass = sum(w[j] for j in tied)
        for j in tied:
            P[i, j] = w[j] / mass
    return P


def sinkhorn_matrix(x, w, A, tol=1e-15, patience=50, max_sweeps=200_000):
    """P_ij = w_j k_ij, k_ij = e^{<A x_i, x_j> + f_i + g_j}, with sum_j w_j k_ij = 1 = sum_i w_i k_ij.

    Rows and columns are normalized in turn (in logarithms) until the marginal error is below `tol`,
    or has not fallen for `patience` sweeps: it is then at the level of rounding.
    """
    S = scores(x, A)
    n = len(S)

    def minus_log_sum(terms):
        """-log sum_j w_j e^{terms_j}."""
        top = max(terms)
        return -top - math.log(sum(w[j] * math.exp(terms[j] - top) for j in range(n)))

    f, g = [0.0] * n, [0.0] * n
    best, best_f, best_g, stalled = math.inf, f, g, 0
    for _ in range(max_sweeps):
        g = [minus_log_sum([S[i, j] + f[i] for i in range(n)]) for j in range(n)]
        f = [minus_log_sum([S[i, j] + g[j] for j in range(n)]) for i in range(n)]
        # The rows are right now; the columns say how far the limit is.
        error = max(abs(sum(w[i] * math.exp(S[i, j] + f[i] + g[j]) for i in range(n)) - 1.0) for j in range(n))
        if error < best:
            best, best_f, best_g, stalled = error, f, g, 0
        else:
            stalled += 1
        if best < tol or stalled >= patience:
            break
    if best > 1e-12:
        raise RuntimeError(f"Sinkhorn stopped at a marginal error of {best:.1e}")
    P = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            P[i, j] = w[j] * math.exp(S[i, j] + best_f[i] + best_g[j])
    return P


def softmax(x, w, A, V, causal=False, s=None):
    """Gamma_i = sum_j w_j e^{<A x_i, x_j>} V x_j / sum_j w_j e^{<A x_i, x_j>}."""
    return attend(softmax_matrix(x, w, A, causal, s), x, V)


def l2(x, w, Q, K, V, causal=False, s=None):
    """Gamma_i = sum_j w_j e^{-|Q x_i - K x_j|^2} V x_j / sum_j w_j e^{-|Q x_i - K x_j|^2}."""
    return attend(l2_matrix(x, w, Q, K, causal, s), x, V)


def sinkhorn(x, w, A, V):
    """Gamma_i = sum_j w_j k_ij V x_j, k the doubly normalized e^{<A x_i, x_j>} (never causal)."""
    return attend(sinkhorn_matrix(x, w, A), x, V)


def unnormalized(x, w, A, V, causal=False, s=None):
    """Gamma_i = sum_j w_j e^{<A x_i, x_j>} V x_j."""
    return attend(unnormalized_matrix(x, w, A, causal, s), x, V)


def linear(x, w, A, V, causal=False, s=None):
    """Gamma_i = sum_j w_j <A x_i, x_j> V x_j."""
    return attend(linear_matrix(x, w, A, causal, s), x, V)


def relu(x, w, A, V, causal=False, s=None, power=1, normalized=False):
    """Gamma_i = sum_j w_j max(0, <A x_i, x_j>)^power V x_j (see relu_matrix)."""
    return attend(relu_matrix(x, w, A, causal, s, power, normalized), x, V)


def cauchy(x, w, A, V, causal=False, s=None):
    """Gamma_i = sum_j w_j V x_j / (1 + <A x_i, x_j>^2), over the sum of these coefficients."""
    return attend(cauchy_matrix(x, w, A, causal, s), x, V)


def sigmoid(x, w, A, V, causal=False, s=None, normalized=False):
    """Gamma_i = sum_j w_j V x_j / (1 + e^{-<A x_i, x_j>}) (see sigmoid_matrix)."""
    return attend(sigmoid_matrix(x, w, A, causal, s, normalized), x, V)


def hardmax(x, w, A, V, causal=False, s=None, rule="self", tie=1e-9):
    """Gamma_i = the w-weighted mean of V x_j over C_i = argmax_j <A x_i, x_j> (see hardmax_matrix)."""
    return attend(hardmax_matrix(x, w, A, causal, s, rule, tie), x, V)


def multi_head(gammas, outputs):
    """Gamma_i = sum_h W_h Gamma^(h)_i, from the heads' results (n, d_h) and their output maps W_h (d, d_h)."""
    if len(gammas) != len(outputs):
        raise ValueError(f"{len(gammas)} heads but {len(outputs)} output maps")
    total = np.zeros((len(gammas[0]), np.asarray(outputs[0]).shape[0]))
    for gamma, W in zip(gammas, outputs, strict=True):
        for i in range(len(gamma)):
            total[i] += np.asarray(W, dtype=float) @ gamma[i]
    return total


def mlp(x, W1, b1, W2, b2, activation):
    """W2 sigma(W1 x_i + b1) + b2, token by token; `activation` maps a number to a number."""
    rows = []
    for y in np.asarray(x, dtype=float):
        hidden = np.array([float(activation(a)) for a in W1 @ y + b1])
        rows.append(W2 @ hidden + b2)
    return np.array(rows)
