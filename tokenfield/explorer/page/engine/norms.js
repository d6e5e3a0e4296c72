/** Normalization rules: theta' = speed P A and r' = growth, with inner = <theta, A> and length = |A| (FORMULAS §7). */

const inverse = (length) => (length > 0 ? 1 / length : 0);
const none = () => 0;

/**
 * Each rule of `norm` by its name in a config: `radial` is true if lengths evolve, `scaleFree` if only the
 * direction of A matters, `autonomous` if time does not enter. */
export const NORMS = {
  post: () => ({ autonomous: true, radial: false, scaleFree: false, speed: () => 1, growth: none }),
  pre: () => ({ autonomous: true, radial: true, scaleFree: false, speed: (t, r) => 1 / r, growth: (t, r, inner) => inner }),
  peri: () => ({
    autonomous: true,
    radial: true,
    scaleFree: true,
    speed: (t, r, inner, length) => inverse(length) / r,
    growth: (t, r, inner, length) => inner * inverse(length),
  }),
  mix: ({ tau }) => ({
    radial: true,
    scaleFree: false,
    breakAt: tau,
    speed: (t, r) => (t <= tau ? 1 : 1 / r),
    growth: (t, r, inner) => (t <= tau ? 0 : inner),
  }),
  ngpt: ({ alpha }) => ({
    autonomous: true,
    radial: false,
    scaleFree: true,
    speed: (t, r, inner, length) => alpha * inverse(length),
    growth: none,
  }),
  sqrt: () => ({ radial: false, scaleFree: false, speed: (t) => 1 / Math.sqrt(t + 1), growth: none }),
};

/** Return the rule of a checked config; tau and alpha have the defaults of the page. */
export function makeNorm(config) {
  return NORMS[config.kind]({ tau: config.tau ?? 2, alpha: config.alpha ?? 1 });
}
