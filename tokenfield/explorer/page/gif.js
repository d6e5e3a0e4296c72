/** Animated pictures in the GIF format: one palette of 256 colors for all frames, and LZW. */

const SMALLEST_CODE = 8, MOST_CODES = 4096;

export class Gif {
  /**
   * A picture of `width` x `height` pixels. Frames are added as RGBA bytes. The palette has the colors that are most common in
   * the first frame, and those that are `expected` later, as [r, g, b] from 0 to 255.
   */
  constructor(width, height, expected = []) {
    Object.assign(this, { width, height, expected, chunks: [], palette: null, known: new Map() });
  }

  /** Add a frame that is shown for `milliseconds`. */
  add(rgba, milliseconds) {
    if (!this.palette) this.begin(rgba);
    const delay = Math.max(2, Math.round(milliseconds / 10)), { width, height } = this;
    this.put(0x21, 0xf9, 4, 4, delay & 255, delay >> 8, 0, 0, 0x2c, 0, 0, 0, 0, width & 255, width >> 8, height & 255, height >> 8, 0, SMALLEST_CODE);
    const bytes = packed(this.indices(rgba));
    for (let at = 0; at < bytes.length; at += 255) {
      const part = bytes.subarray(at, at + 255);
      this.put(part.length);
      this.chunks.push(part);
    }
    this.put(0);
  }

  /** Return the file. */
  finish() {
    return new Blob([...this.chunks, Uint8Array.of(0x3b)], { type: "image/gif" });
  }

  put(...bytes) {
    this.chunks.push(Uint8Array.from(bytes));
  }

  begin(rgba) {
    this.palette = commonColors(rgba, this.expected);
    const { width, height } = this, text = (s) => [...s].map((c) => c.charCodeAt(0));
    this.put(...text("GIF89a"), width & 255, width >> 8, height & 255, height >> 8, 0xf7, 0, 0);
    this.put(...this.palette.flat());
    this.put(0x21, 0xff, 11, ...text("NETSCAPE2.0"), 3, 1, 0, 0, 0); // repeat for ever
  }

  /** Return the nearest color of the palette for each pixel. */
  indices(rgba) {
    const out = new Uint8Array(rgba.length / 4), { known, palette } = this;
    for (let k = 0; k < out.length; k++) {
      const [r, g, b] = [rgba[4 * k], rgba[4 * k + 1], rgba[4 * k + 2]], key = bucket(r, g, b);
      let best = known.get(key);
      if (best === undefined) {
        let least = Infinity;
        palette.forEach(([pr, pg, pb], index) => {
          const far = 2 * (pr - r) ** 2 + 4 * (pg - g) ** 2 + 3 * (pb - b) ** 2;
          if (far < least) [least, best] = [far, index];
        });
        known.set(key, best);
      }
      out[k] = best;
    }
    return out;
  }
}

const bucket = (r, g, b) => ((r >> 2) << 12) | ((g >> 2) << 6) | (b >> 2);

/** Return 256 colors: those that are expected, a cube of 4 x 4 x 4, and the most common ones of a picture. */
function commonColors(rgba, expected) {
  const counts = new Map();
  for (let k = 0; k < rgba.length; k += 4) {
    const key = bucket(rgba[k], rgba[k + 1], rgba[k + 2]), entry = counts.get(key);
    if (entry) entry.count++;
    else counts.set(key, { count: 1, color: [rgba[k], rgba[k + 1], rgba[k + 2]] });
  }
  const cube = Array.from({ length: 64 }, (_, k) => [k >> 4, (k >> 2) & 3, k & 3].map((level) => 85 * level));
  const common = [...counts.values()].sort((a, b) => b.count - a.count).map(({ color }) => color);
  const palette = [...expected, ...cube, ...common].slice(0, 256);
  while (palette.length < 256) palette.push([0, 0, 0]);
  return palette;
}

/** Return indices compressed by LZW with codes of growing length, as bytes. */
export function packed(indices) {
  const clear = 1 << SMALLEST_CODE, out = [];
  let size = SMALLEST_CODE + 1, next = clear + 2, table = new Map(), bits = 0, filled = 0;
  const emit = (code) => {
    bits |= code << filled;
    for (filled += size; filled >= 8; filled -= 8) {
      out.push(bits & 255);
      bits >>>= 8;
    }
  };
  emit(clear);
  let prefix = indices[0];
  for (let k = 1; k < indices.length; k++) {
    const key = (prefix << 8) | indices[k], found = table.get(key);
    if (found !== undefined) {
      prefix = found;
      continue;
    }
    emit(prefix);
    if (next < MOST_CODES) {
      table.set(key, next);
      if (next === 1 << size) size++;
      next++;
    } else {
      emit(clear);
      [size, next, table] = [SMALLEST_CODE + 1, clear + 2, new Map()];
    }
    prefix = indices[k];
  }
  emit(prefix);
  emit(clear + 1);
  if (filled) out.push(bits & 255);
  return Uint8Array.from(out);
}
