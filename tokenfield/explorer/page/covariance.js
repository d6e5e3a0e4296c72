/** Covariances in the plane as points of a cone, and as ellipses. */

/** Return [a - b, 2c, a + b] of the covariance in a frame of a Gaussian. */
export function conePoint({ d, x }) {
  const [a, c, b] = [x[d], x[d + 1], x[2 * d + 1]];
  return [a - b, 2 * c, a + b];
}

/** Return {big, small, turn}: the standard deviations along the axes of a covariance given by its point, and their angle. */
export function axesOf([x, y, z]) {
  const half = Math.hypot(x, y);
  return { big: Math.sqrt(Math.max(0, (z + half) / 2)), small: Math.sqrt(Math.max(0, (z - half) / 2)), turn: Math.atan2(y, x) / 2 };
}
