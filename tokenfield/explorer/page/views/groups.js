/** Groups that the eye sees before tokens have met: places with clearly more tokens than an even spread would have. */

const NEAR = { 2: Math.cos(0.05), 3: Math.cos(0.2) };
const CHANCE = { 2: 0.05 / Math.PI, 3: (1 - Math.cos(0.2)) / 2 }; // share of the circle or the sphere that is near a point
const SIGMAS = 3;

/**
 * Return {labels, count}: the group of each token, or -1. A token is in a group if the mass near it is three standard
 * deviations above that of an even spread; such tokens that are near each other are in one group.
 */
export function visibleGroups(x, weights, n, d) {
  const near = NEAR[d], mean = n * CHANCE[d], least = Math.max(2, mean + SIGMAS * Math.sqrt(mean) + 1) - 1e-6;
  const mass = new Float64Array(n), size = (i) => (weights ? n * weights[i] : 1);
  const cosine = d === 2
    ? (i, j) => x[2 * i] * x[2 * j] + x[2 * i + 1] * x[2 * j + 1]
    : (i, j) => x[3 * i] * x[3 * j] + x[3 * i + 1] * x[3 * j + 1] + x[3 * i + 2] * x[3 * j + 2];
  for (let i = 0; i < n; i++) {
    mass[i] += size(i);
    for (let j = 0; j < i; j++)
      if (cosine(i, j) > near) {
        mass[i] += size(j);
        mass[j] += size(i);
      }
  }
  const dense = [], parent = Int32Array.from({ length: n }, (_, i) => i);
  const root = (i) => {
    while (parent[i] !== i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (let i = 0; i < n; i++) {
    if (mass[i] < least) continue;
    for (const j of dense) if (cosine(i, j) > near) parent[root(i)] = root(j);
    dense.push(i);
  }
  const labels = new Int32Array(n).fill(-1), names = new Map();
  for (const i of dense) {
    const r = root(i);
    if (!names.has(r)) names.set(r, names.size);
    labels[i] = names.get(r);
  }
  return { labels, count: names.size };
}
