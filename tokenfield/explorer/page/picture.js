/** Pictures and films of the page. */

import { Gif } from "./gif.js";

const WIDTH = 1280, HEIGHT = 800, STAGE = 800;
const GIF_PERIOD = 80, MOST_GIF_FRAMES = 150; // milliseconds of a frame, and frames

/** Draw the scene, the plots and what they are onto a canvas. */
function compose(app, canvas) {
  const { theme, parts, panels } = app;
  app.drawScene(); // WebGL forgets its picture after a frame
  const g = canvas.getContext("2d");
  g.fillStyle = theme.background;
  g.fillRect(0, 0, WIDTH, HEIGHT);
  const { canvas: scene } = parts, fit = Math.min(STAGE / scene.width, HEIGHT / scene.height);
  g.drawImage(scene, (STAGE - scene.width * fit) / 2, (HEIGHT - scene.height * fit) / 2, scene.width * fit, scene.height * fit);
  g.fillStyle = theme.text;
  g.font = "600 18px system-ui, sans-serif";
  g.fillText("tokenfield", 24, 36);
  g.font = "15px system-ui, sans-serif";
  g.fillText(parts.clock.textContent, 24, 60);
  const { attention, norm, noise } = app.config;
  g.fillText(`${attention.kind}${attention.A ? "" : `, β = ${attention.beta}`}, ${norm.kind}${noise ? `, κ = ${noise.kappa}` : ""}`, 24, HEIGHT - 24);
  const shown = Object.values(panels).filter(({ canvas: each }) => each.width > 10).slice(0, 6);
  shown.forEach((panel, k) => {
    const x = STAGE + (k % 2) * 235 + 5, y = 20 + Math.floor(k / 2) * 255, each = panel.canvas;
    g.fillStyle = theme.text;
    g.font = "600 13px system-ui, sans-serif";
    g.fillText(panel.figure.querySelector(".about").textContent, x + 4, y + 12);
    const scale = Math.min(225 / each.width, 215 / each.height);
    g.drawImage(each, x, y + 20, each.width * scale, each.height * scale);
  });
}

function newCanvas(width = WIDTH, height = HEIGHT) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Save the page as a PNG. */
export function savePicture(app) {
  const canvas = newCanvas();
  compose(app, canvas);
  canvas.toBlob((blob) => blob && save(blob, "tokenfield.png"), "image/png");
}

/** Record the page as "WebM" or "GIF"; return a function that stops and saves. Throw an Error where that is not possible. */
export function startFilm(app, format, onstop) {
  return format === "GIF" ? startGif(app, onstop) : startWebm(app, onstop);
}

function startWebm(app, onstop) {
  if (typeof MediaRecorder === "undefined") throw new Error("it has no MediaRecorder");
  const canvas = newCanvas();
  if (!canvas.captureStream) throw new Error("it has no captureStream");
  compose(app, canvas);
  const recorder = new MediaRecorder(canvas.captureStream(30), { mimeType: "video/webm" });
  const chunks = [];
  recorder.ondataavailable = ({ data }) => data.size && chunks.push(data);
  recorder.onstop = () => {
    app.onpicture = null;
    save(new Blob(chunks, { type: "video/webm" }), "tokenfield.webm");
    onstop();
  };
  app.onpicture = () => compose(app, canvas);
  recorder.start(500);
  return () => recorder.state !== "inactive" && recorder.stop();
}

/** A GIF of half the size, which ends by itself after a while: such files are large. */
function startGif(app, onstop) {
  const large = newCanvas(), small = newCanvas(WIDTH / 2, HEIGHT / 2), gif = new Gif(small.width, small.height, expectedColors(app.theme));
  const g = small.getContext("2d", { willReadFrequently: true });
  let frames = 0, before = -Infinity;
  const stop = () => {
    if (!app.onpicture) return;
    app.onpicture = null;
    save(gif.finish(), "tokenfield.gif");
    onstop();
  };
  app.onpicture = () => {
    const now = performance.now();
    if (now - before < GIF_PERIOD) return;
    compose(app, large);
    g.drawImage(large, 0, 0, small.width, small.height);
    gif.add(g.getImageData(0, 0, small.width, small.height).data, Number.isFinite(before) ? Math.min(500, now - before) : GIF_PERIOD);
    before = now;
    if (++frames >= MOST_GIF_FRAMES) stop();
  };
  app.onpicture();
  return stop;
}

/** Return the colors of clusters, pure and mixed with the background. */
function expectedColors({ clear, palette }) {
  const shades = [1, 0.75, 0.5, 0.3];
  return palette.flatMap((color) => shades.map((part) => color.map((value, c) => Math.round(255 * (part * value + (1 - part) * clear[c])))));
}
