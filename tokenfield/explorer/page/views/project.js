/** Tokens in more than three dimensions, seen along their three principal directions. */

const FIRST_STEPS = 30, STEPS = 2; // of orthogonal iteration: the directions of one frame are close to those of the last one

export class Projection {
  /** Return n x 3 coordinates of n unit vectors of R^d along the directions in which they are largest. */
  of(x, n, d) {
    const known = this.axes?.[0].length === d;
    if (!known) this.axes = [0, 1, 2].map((k) => Float64Array.from({ length: d }, (_, a) => (a === k ? 1 : 0.01 * Math.cos(a * (k + 2)))));
    for (let step = 0; step < (known ? STEPS : FIRST_STEPS); step++) this.axes = orthonormal(this.axes.map((axis) => moved(x, n, d, axis)));
    const out = new Float32Array(3 * n);
    for (let i = 0; i < n; i++) for (let k = 0; k < 3; k++) out[3 * i + k] = inner(x, i * d, this.axes[k]);
    return out;
  }
}

function inner(x, at, axis) {
  let sum = 0;
  for (let a = 0; a < axis.length; a++) sum += x[at + a] * axis[a];
  return sum;
}

/** Return (1e-6 + sum_i x_i x_i^T / n) axis; the small number keeps directions in which there is nothing. */
function moved(x, n, d, axis) {
  const out = axis.map((value) => 1e-6 * value);
  for (let i = 0; i < n; i++) {
    const along = inner(x, i * d, axis) / n;
    for (let a = 0; a < d; a++) out[a] += along * x[i * d + a];
  }
  return out;
}

function orthonormal(axes) {
  const done = [];
  for (const axis of axes) {
    for (const other of done) {
      const along = inner(axis, 0, other);
      for (let a = 0; a < axis.length; a++) axis[a] -= along * other[a];
    }
    const length = Math.hypot(...axis);
    done.push(axis.map((value) => value / length));
  }
  return done;
}
