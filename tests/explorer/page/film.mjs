/** Write a GIF of random blocks of color, and the same frames as raw RGBA: node film.mjs out.gif out.raw. */

import { writeFileSync } from "node:fs";

import { Gif } from "../../../tokenfield/explorer/page/gif.js";

const WIDTH = 96, HEIGHT = 64, COLORS = [[0, 114, 178], [230, 159, 0], [16, 22, 29], [255, 255, 255]];
let state = 7;
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
const gif = new Gif(WIDTH, HEIGHT, COLORS), frames = [];
for (let k = 0; k < 3; k++) {
  const rgba = new Uint8ClampedArray(4 * WIDTH * HEIGHT).fill(255);
  for (let at = 0; at < rgba.length; at += 4) rgba.set(COLORS[Math.floor(random() * COLORS.length)], at); // noise: the table of codes fills
  gif.add(rgba, 100 * (k + 1));
  frames.push(rgba);
}
writeFileSync(process.argv[2], Buffer.from(await gif.finish().arrayBuffer()));
writeFileSync(process.argv[3], Buffer.concat(frames.map((rgba) => Buffer.from(rgba))));
