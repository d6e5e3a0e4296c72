/** Binary frames: what every source of frames sends to the page. Little-endian, as all typed arrays on today's machines. */

const MAGIC = 0x31464b54; // "TKF1"
const HEADER = 56;
const NOT_MEASURED = 0xffffffff;
const LARGEST_LOG = 690; // of times that are numbers
export const TOKENS = 0, DENSITY = 1, GAUSSIAN = 2, SPHERE_DENSITY = 3; // kinds: DENSITY is on the circle

/** Return a frame as an ArrayBuffer. */
export function encodeFrame(frame) {
  const count = frame.x.length, n = frame.n;
  const buffer = new ArrayBuffer(HEADER + 4 * (count + (frame.weights ? n : 0) + (frame.labels ? n : 0)));
  const view = new DataView(buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, frame.kind, true);
  view.setUint32(8, n, true);
  view.setUint32(12, frame.d, true);
  view.setFloat64(16, frame.time, true);
  view.setFloat64(24, frame.logTimeUnit, true);
  view.setFloat64(32, frame.energy, true);
  view.setFloat64(40, frame.order, true);
  view.setUint32(48, frame.clusters, true);
  view.setUint32(52, (frame.weights ? 1 : 0) | (frame.labels ? 2 : 0), true);
  let at = HEADER;
  new Float32Array(buffer, at, count).set(frame.x);
  at += 4 * count;
  if (frame.weights) new Float32Array(buffer, at, n).set(frame.weights);
  if (frame.weights) at += 4 * n;
  if (frame.labels) new Int32Array(buffer, at, n).set(frame.labels);
  return buffer;
}

/** Return {frame, end} of the frame that begins at byte `offset`; throw an Error if there is none. */
export function decodeFrame(buffer, offset = 0) {
  if (buffer.byteLength < offset + HEADER) throw new Error("a frame is cut short");
  const view = new DataView(buffer, offset);
  if (view.getUint32(0, true) !== MAGIC) throw new Error("these bytes are not a frame");
  const kind = view.getUint32(4, true), n = view.getUint32(8, true), d = view.getUint32(12, true);
  const flags = view.getUint32(52, true);
  const count = kind === GAUSSIAN ? d + d * d : kind === DENSITY ? n : n * d;
  const end = offset + HEADER + 4 * (count + (flags & 1 ? n : 0) + (flags & 2 ? n : 0));
  if (end > buffer.byteLength) throw new Error("a frame is cut short");
  const cut = (Type, at, length) => new Type(buffer.slice(at, at + 4 * length));
  let at = offset + HEADER;
  const x = cut(Float32Array, at, count);
  at += 4 * count;
  const weights = flags & 1 ? cut(Float32Array, at, n) : null;
  if (weights) at += 4 * n;
  const labels = flags & 2 ? cut(Int32Array, at, n) : null;
  const frame = {
    kind, n, d, x, weights, labels, ...readTime(view.getFloat64(16, true), view.getFloat64(24, true)),
    energy: view.getFloat64(32, true),
    order: view.getFloat64(40, true),
    clusters: view.getUint32(48, true) === NOT_MEASURED ? NaN : view.getUint32(48, true),
  };
  return { frame, end };
}

/**
 * Return {time, logTimeUnit, logTime}: time in units of e^logTimeUnit. Long waits come in large units: their time is in units
 * of one here, and Infinity where a number cannot hold it. `logTime` is the logarithm of the time without units.
 */
function readTime(time, logTimeUnit) {
  const logTime = Math.log(time) + logTimeUnit;
  return logTimeUnit > 0 ? { time: logTime < LARGEST_LOG ? Math.exp(logTime) : Infinity, logTimeUnit: 0, logTime } : { time, logTimeUnit, logTime };
}

/** True if a frame is later than a sample or another frame, of which `time` may be Infinity. */
export function isLater(a, b) {
  return a.time > b.time || (a.time === b.time && a.time === Infinity && a.logTime > b.logTime);
}

/** Return all frames of a buffer. */
export function decodeFrames(buffer) {
  const frames = [];
  for (let at = 0; at < buffer.byteLength; ) {
    const { frame, end } = decodeFrame(buffer, at);
    frames.push(frame);
    at = end;
  }
  return frames;
}
