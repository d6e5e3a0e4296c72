/** Draw discs, lines and the ball with Canvas2D, where there is no WebGL2. The same methods as GlRenderer. */

const css = (r, g, b, a) => `rgba(${Math.round(255 * r)},${Math.round(255 * g)},${Math.round(255 * b)},${a.toFixed(3)})`;

export class CanvasRenderer {
  constructor(canvas) {
    Object.assign(this, { canvas, context: canvas.getContext("2d"), name: "Canvas2D" });
  }

  begin(width, height, scale, [r, g, b]) {
    const { canvas, context } = this;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = css(r, g, b, 1);
    context.fillRect(0, 0, width, height);
    context.lineCap = "round";
  }

  drawPoints(data, count) {
    const { context } = this;
    for (let i = 0; i < count; i++) {
      const [x, y, radius, r, g, b, a] = data.subarray(7 * i, 7 * i + 7);
      context.fillStyle = css(r, g, b, a);
      context.beginPath();
      context.arc(x, y, Math.abs(radius), 0, 2 * Math.PI);
      context.fill();
    }
  }

  drawLines(data, count) {
    const { context } = this;
    for (let i = 0; i < count; i++) {
      const [x0, y0, x1, y1, width, r, g, b, a, fade] = data.subarray(10 * i, 10 * i + 10);
      context.strokeStyle = css(r, g, b, (a * (1 + fade)) / 2);
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x0, y0);
      context.lineTo(x1, y1);
      context.stroke();
    }
  }

  drawBall(x, y, radius, fill, rim) {
    const { context } = this;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fillStyle = css(...fill);
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = css(...rim);
    context.stroke();
  }
}
