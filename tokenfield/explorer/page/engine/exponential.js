/** A quick e^x for inner loops: a table of 2^(k/2048) and a short polynomial, right to 1e-15 for -740 < x < 709. */

const SIZE = 2048;
const TABLE = Float64Array.from({ length: SIZE }, (_, i) => 2 ** (i / SIZE));
const POWERS = Float64Array.from({ length: 2200 }, (_, i) => 2 ** (i - 1100));
const PER_UNIT = SIZE / Math.LN2;
const REST = 2.319046813846299e-17; // log 2 - Math.LN2
const HIGH = Math.fround(Math.LN2 / SIZE), LOW = Math.LN2 / SIZE - HIGH + REST / SIZE;

export function quickExp(x) {
  if (x < -740) return 0;
  const m = Math.floor(x * PER_UNIT + 0.5) | 0, r = x - m * HIGH - m * LOW;
  return TABLE[m & (SIZE - 1)] * POWERS[(m >> 11) + 1100] * (1 + r * (1 + r * (0.5 + r * (1 / 6 + r * (1 / 24)))));
}
