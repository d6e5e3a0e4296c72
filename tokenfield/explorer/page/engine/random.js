/**
 * Random numbers. `NumpyGenerator` repeats numpy.random.default_rng(seed), so a seed gives the same tokens here as in
 * Python. `Gaussians` is a quick generator for noise.
 */

const MASK32 = 0xffffffffn, MASK64 = (1n << 64n) - 1n, MASK128 = (1n << 128n) - 1n;
const MULTIPLIER = (2549297995355413924n << 64n) + 4865540595714422341n;

/** Return the words of numpy's SeedSequence(seed).generate_state(4, uint64), as BigInts. */
function seedWords(seed) {
  const words = [];
  for (let rest = BigInt(seed); rest > 0n || words.length === 0; rest >>= 32n) words.push(Number(rest & MASK32));
  let hash = 0x43b0d7e5;
  const mixed = (value) => {
    value = (value ^ hash) >>> 0;
    hash = Math.imul(hash, 0x931e8875) >>> 0;
    value = Math.imul(value, hash) >>> 0;
    return (value ^ (value >>> 16)) >>> 0;
  };
  const mix = (x, y) => {
    const result = (Math.imul(x, 0xca01f9dd) - Math.imul(y, 0x4973f715)) >>> 0;
    return (result ^ (result >>> 16)) >>> 0;
  };
  const pool = [0, 1, 2, 3].map((i) => mixed(i < words.length ? words[i] : 0));
  for (let from = 0; from < 4; from++)
    for (let to = 0; to < 4; to++) if (from !== to) pool[to] = mix(pool[to], mixed(pool[from]));
  for (let from = 4; from < words.length; from++)
    for (let to = 0; to < 4; to++) pool[to] = mix(pool[to], mixed(words[from]));
  let state = 0x8b51f9dd;
  const out = [];
  for (let i = 0; i < 8; i++) {
    let value = (pool[i % 4] ^ state) >>> 0;
    state = Math.imul(state, 0x58f38ded) >>> 0;
    value = Math.imul(value, state) >>> 0;
    out.push(BigInt((value ^ (value >>> 16)) >>> 0));
  }
  return [0, 2, 4, 6].map((i) => out[i] | (out[i + 1] << 32n));
}

/** The tables of numpy's ziggurat for the normal law: 256 layers, 52 random bits. */
const RIGHT = 3.6541528853610087963519472518;
const ZIGGURAT = makeZiggurat();

function makeZiggurat() {
  const area = 0.004928673233974655, scale = 2 ** 52;
  const k = new Float64Array(256), w = new Float64Array(256), f = new Float64Array(256);
  const density = (x) => Math.exp(-0.5 * x * x);
  let next = RIGHT;
  const base = area / density(RIGHT);
  k[0] = Math.floor((RIGHT / base) * scale);
  w[0] = base / scale;
  f[0] = 1;
  w[255] = RIGHT / scale;
  f[255] = density(RIGHT);
  for (let i = 254; i >= 1; i--) {
    const x = Math.sqrt(-2 * Math.log(area / next + density(next)));
    k[i + 1] = Math.floor((x / next) * scale);
    next = x;
    w[i] = x / scale;
    f[i] = density(x);
  }
  k[1] = 0;
  return { k, w, f };
}

export class NumpyGenerator {
  constructor(seed) {
    const [a, b, c, d] = seedWords(seed);
    this.increment = ((((c << 64n) | d) << 1n) | 1n) & MASK128;
    this.state = 0n;
    this.advance();
    this.state = (this.state + ((a << 64n) | b)) & MASK128;
    this.advance();
  }

  advance() {
    this.state = (this.state * MULTIPLIER + this.increment) & MASK128;
  }

  /** Return 64 random bits as a BigInt (PCG64, XSL-RR). */
  bits() {
    this.advance();
    const value = ((this.state >> 64n) ^ this.state) & MASK64, by = this.state >> 122n;
    return ((value >> by) | (value << (64n - by))) & MASK64;
  }

  /** Return a uniform number in [0, 1). */
  uniform() {
    return Number(this.bits() >> 11n) / 2 ** 53;
  }

  /** Return a standard normal number. */
  normal() {
    const { k, w, f } = ZIGGURAT;
    for (;;) {
      let bits = this.bits();
      const layer = Number(bits & 0xffn);
      bits >>= 8n;
      const negative = (bits & 1n) === 1n, size = Number((bits >> 1n) & 0xfffffffffffffn);
      let x = size * w[layer];
      if (negative) x = -x;
      if (size < k[layer]) return x;
      if (layer === 0) {
        for (;;) {
          const xx = -Math.log1p(-this.uniform()) / RIGHT, yy = -Math.log1p(-this.uniform());
          if (yy + yy > xx * xx) return (Number((bits >> 9n) & 1n) ? -1 : 1) * (RIGHT + xx);
        }
      }
      if ((f[layer - 1] - f[layer]) * this.uniform() + f[layer] < Math.exp(-0.5 * x * x)) return x;
    }
  }

  /** Return `count` standard normal numbers. */
  normals(count) {
    return Float64Array.from({ length: count }, () => this.normal());
  }
}

/** Standard normal numbers by the polar method, from the generator sfc32. */
export class Gaussians {
  constructor(seed) {
    this.s = [seed >>> 0, 0x9e3779b9, 0x243f6a88, 1];
    this.spare = null;
    for (let i = 0; i < 20; i++) this.uniform();
  }

  uniform() {
    const s = this.s, t = (s[0] + s[1] + s[3]) | 0;
    s[3] = (s[3] + 1) | 0;
    s[0] = s[1] ^ (s[1] >>> 9);
    s[1] = (s[2] + (s[2] << 3)) | 0;
    s[2] = ((s[2] << 21) | (s[2] >>> 11)) + t | 0;
    return ((t >>> 0) + 0.5) / 4294967296;
  }

  normal() {
    if (this.spare !== null) {
      const value = this.spare;
      this.spare = null;
      return value;
    }
    for (;;) {
      const u = 2 * this.uniform() - 1, v = 2 * this.uniform() - 1, s = u * u + v * v;
      if (s >= 1 || s === 0) continue;
      const scale = Math.sqrt((-2 * Math.log(s)) / s);
      this.spare = v * scale;
      return u * scale;
    }
  }
}
