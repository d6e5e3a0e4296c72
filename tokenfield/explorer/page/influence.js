/** How far the last token of a run moves when one token is moved a little at the start. */

import { Runner } from "./engine/runner.js";

const SIZE = 1e-3;

/** Return the influence of every token on the last at time t: displacement over displacement, along one direction. */
export function measureInfluence(config, t) {
  const end = (moved) => {
    const runner = new Runner(config);
    if (moved !== null) moveToken(runner, moved);
    runner.rebuild();
    runner.stepper.rtol = 1e-8;
    runner.advance(t);
    runner.read();
    return runner;
  };
  const plain = end(null), { n, d } = plain, values = [];
  const start = new Runner(config);
  for (let j = 0; j < n; j++) {
    const other = end(j), u = tangent(start.x, n - 1, d);
    let along = 0;
    for (let a = 0; a < d; a++) along += u[a] * (other.x[(n - 1) * d + a] - plain.x[(n - 1) * d + a]);
    values.push(along / SIZE);
  }
  return values;
}

function moveToken({ x, d }, j) {
  const u = tangent(x, j, d);
  let square = 0;
  for (let a = 0; a < d; a++) square += (x[j * d + a] += SIZE * u[a]) ** 2;
  for (let a = 0; a < d; a++) x[j * d + a] /= Math.sqrt(square);
}

/** Return a unit tangent vector at token j, nearly the same for tokens that are close to each other. */
function tangent(x, j, d) {
  const along = d === 2 ? [-x[1], x[0]] : Math.abs(x[2]) < 0.8 ? [0, 0, 1] : [1, 0, 0];
  let inner = 0;
  for (let a = 0; a < d; a++) inner += along[a] * x[j * d + a];
  const u = along.map((value, a) => value - inner * x[j * d + a]), length = Math.hypot(...u);
  return u.map((value) => value / length);
}
