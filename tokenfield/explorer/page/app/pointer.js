/** The pointer on the scene: turn it, and add, move, paint or remove tokens. */

import { MOST_TOKENS } from "../engine/config.js";
import { GRID } from "../engine/starts.js";
import { DENSITY, TOKENS } from "../frames.js";

/** Methods of App: app.js adds them to the class. */
export const pointerMethods = {
  listenToPointer(canvas) {
    let drag = null;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (!this.runs[0]?.frame || event.button > 0) return;
      const [x, y] = at(event), index = this.scene.viewAt(x), { d, kind } = this.runs[index].frame;
      const tool = this.runs[index].source.editable && kind === TOKENS && d <= 3 && this.tool !== "turn" ? this.tool : "turn";
      canvas.setPointerCapture(event.pointerId);
      drag = { tool, x, y, index, d, kind, moved: 0, rows: null, resume: this.playing };
      if (tool === "turn") return;
      const near = this.scene.tokenAt(x, y, index, d);
      if (tool === "move" && near < 0) drag.tool = "turn";
      else if (tool === "remove" && near < 0) drag = null;
      else if ((tool === "add" || tool === "paint") && !this.scene.inside(x, y, index, d)) drag.tool = "turn";
      else {
        this.pause();
        drag.rows = this.currentRows(index);
        drag.token = near;
        if (tool === "add") drag.rows.push(quantized(this.scene.directionAt(x, y, index, d)));
        if (tool === "remove" && drag.rows.length > 1) drag.rows.splice(near, 1);
        if (tool === "paint") this.sprinkle(drag, x, y);
      }
    }, { signal: this.listeners.signal });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const [x, y] = at(event), { cx, cy, radius } = this.scene.place(drag.index);
      const [dx, dy] = [x - drag.x, y - drag.y];
      drag.moved += Math.abs(dx) + Math.abs(dy);
      const angle = Math.atan2(cy - y, x - cx) - Math.atan2(cy - drag.y, drag.x - cx); // around the center
      [drag.x, drag.y] = [x, y];
      if (drag.tool === "turn") {
        if (isFlat(drag)) this.camera.spinTo(this.camera.spin + angle);
        else this.camera.turn(dx / radius, dy / radius);
        this.dirty = true;
      } else if (drag.tool === "move") {
        drag.rows[drag.token] = quantized(this.scene.directionAt(x, y, drag.index, drag.d));
        this.preview(drag);
      } else if (drag.tool === "paint" && this.scene.inside(x, y, drag.index, drag.d)) this.sprinkle(drag, x, y);
    }, { signal: this.listeners.signal });
    const end = () => {
      if (!drag) return;
      const { rows, resume, tool } = drag;
      drag = null;
      this.chosen = null;
      if (tool === "turn") return this.remember();
      if (!rows) return;
      this.playing = resume;
      this.setTokens({ x: rows });
    };
    canvas.addEventListener("pointerup", end, { signal: this.listeners.signal });
    canvas.addEventListener("pointercancel", end, { signal: this.listeners.signal });
    canvas.addEventListener("keydown", (event) => {
      const turns = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] };
      if (!turns[event.key]) return;
      event.preventDefault();
      if (this.runs[0]?.frame && isFlat(this.runs[0].frame)) this.camera.spinTo(this.camera.spin - turns[event.key][0] - turns[event.key][1]);
      else this.camera.turn(...turns[event.key]);
      this.dirty = true;
      this.remember();
    });
  },

  /** Return the tokens as rows of whole numbers, as links hold them. */
  currentRows(index) {
    const { x } = this.runs[index], { n, d } = this.runs[index].frame;
    return Array.from({ length: n }, (_, i) => quantized(Array.from(x.subarray(i * d, i * d + d))));
  },

  sprinkle(drag, x, y) {
    const now = performance.now();
    if (now - (drag.last ?? 0) < 30) return;
    drag.last = now;
    for (let k = 0; k < 3 && drag.rows.length < MOST_TOKENS; k++) {
      const [jx, jy] = [x + 36 * (Math.random() - 0.5), y + 36 * (Math.random() - 0.5)];
      drag.rows.push(quantized(this.scene.directionAt(jx, jy, drag.index, drag.d)));
    }
    this.preview(drag);
  },

  /** Show edited tokens before they start to move. */
  preview({ rows, index, d, token, tool }) {
    const n = rows.length, x = Float32Array.from(rows.flat(), (value) => value / GRID);
    this.scene.reset(index);
    const labels = this.runs[index].frame.labels, same = labels && labels.length === n;
    const frame = { ...this.runs[index].frame, n, x, weights: null, labels: same ? labels : Int32Array.from({ length: n }, (_, i) => i) };
    this.scene.note(index, frame);
    this.runs[index].frame = frame;
    this.runs[index].x = this.scene.view(index).x;
    this.chosen = tool === "move" ? { view: index, token } : null;
    this.dirty = true;
  },
};

/** True if a frame lies on the circle. */
function isFlat({ kind, d }) {
  return kind === DENSITY || (kind === TOKENS && d === 2);
}

/** Return a direction as whole numbers up to GRID. */
function quantized(direction) {
  const length = Math.hypot(...direction) || 1;
  return direction.map((value) => Math.round((value / length) * GRID));
}
