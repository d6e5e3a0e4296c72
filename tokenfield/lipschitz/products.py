"""Logarithms of the singular values of a long product of matrices, accurate for large and small ones alike."""

import numpy as np

SWEEPS = 30


def log_singular_values(factors: list[np.ndarray]) -> np.ndarray:
    """Return `log sigma_i` of `R_m … R_1` for square factors, decreasing; -inf where the product is singular.

    Forming the product P would lose everything below `1e-16` of its largest entries. Sweeps of QR factorizations, of P and
    P^T in turn, make every factor triangular with diagonals sorted by size (the QR algorithm for `P^T P`). Then `P = S T`, S
    the diagonal of the product and T within a few orders of magnitude of the identity. One-sided Jacobi rotations give its
    singular values to full *relative* accuracy.
    """
    size = len(factors[0])
    if size == 0:
        return np.zeros(0)
    factors = [np.asarray(R, float) for R in factors]
    for _ in range(SWEEPS):
        factors = _triangular(factors)  # P = Q R_m … R_1, and Q does not matter
        factors = [R.T for R in reversed(factors)]  # P^T, with the same singular values
    factors = _triangular(factors)
    diagonals = np.array([np.abs(np.diag(R)) for R in factors])
    if (diagonals == 0).any():
        with np.errstate(divide="ignore"):
            return np.sort(np.log(diagonals).sum(0))[::-1]
    # Rows of the product in units of its diagonal: S_m T_m … S_1 T_1 with all S moved to the left.
    logs = np.zeros(size)
    T = np.eye(size)
    for R, diagonal in zip(factors, diagonals, strict=True):
        # R (S T) = S' T' with S' = |diag R| S: T' = S'^{-1} R S T.
        after = logs + np.log(diagonal)
        with np.errstate(divide="ignore", over="ignore"):
            T = (np.sign(R) * np.exp(np.log(np.abs(R)) + logs[None, :] - after[:, None])) @ T
        logs = after
    return _jacobi(T, logs)


def _triangular(factors: list[np.ndarray]) -> list[np.ndarray]:
    """Return triangular factors of `Q^T R_m … R_1`, from the right."""
    Q, made = np.eye(len(factors[0])), []
    for R in factors:
        Q, triangle = np.linalg.qr(R @ Q)
        made.append(triangle)
    return made


def _jacobi(T: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return singular values of `diag(e^logs) T`: pairs of rows are rotated until all are orthogonal; scales are stored apart."""
    rows, logs = T.copy(), logs.copy()
    size = len(rows)
    for _ in range(30):
        worst = 0.0
        for i in range(size):
            for j in range(i + 1, size):
                lengths = np.array([np.linalg.norm(rows[i]), np.linalg.norm(rows[j])])
                if not lengths.all():
                    continue
                cosine = float(rows[i] @ rows[j] / lengths.prod())
                if abs(cosine) < 1e-15:
                    continue
                worst = max(worst, abs(cosine))
                scale = max(logs[i], logs[j])
                a, b = rows[i] * np.exp(logs[i] - scale), rows[j] * np.exp(logs[j] - scale)
                if not (a.any() and b.any()):
                    # The scales differ so much that the smaller row only loses its component along the larger one.
                    small, large = (i, j) if logs[i] < logs[j] else (j, i)
                    rows[small] = rows[small] - (rows[small] @ rows[large]) / (rows[large] @ rows[large]) * rows[large]
                    continue
                zeta = (b @ b - a @ a) / (2 * (a @ b))
                t = np.sign(zeta) / (abs(zeta) + np.hypot(1, zeta)) if zeta else 1.0
                c = 1 / np.hypot(1, t)
                for index, row in ((i, c * (a - t * b)), (j, c * (b + t * a))):
                    length = np.linalg.norm(row)
                    if length == 0:
                        continue
                    rows[index], logs[index] = row / length, scale + np.log(length)
        if worst < 1e-13:
            break
    with np.errstate(divide="ignore"):
        return np.sort(logs + np.log(np.linalg.norm(rows, axis=1)))[::-1]
