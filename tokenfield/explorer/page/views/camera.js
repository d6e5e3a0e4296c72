/** The view of the sphere, a rotation, and of the circle, an angle: both are turned by dragging. */

export class Camera {
  constructor(yaw = 0.6, pitch = 0.35) {
    this.set(yaw, pitch);
    this.spinTo(0);
  }

  /** Turn the circle to an angle, counterclockwise. */
  spinTo(angle) {
    this.spin = Math.atan2(Math.sin(angle), Math.cos(angle));
    this.plane = [Math.cos(angle), Math.sin(angle)];
  }

  set(yaw, pitch) {
    this.yaw = ((yaw % (2 * Math.PI)) + 2 * Math.PI) % (2 * Math.PI);
    this.pitch = Math.max(-1.5, Math.min(1.5, pitch));
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    this.rows = [
      [-sy, cy, 0],
      [-sp * cy, -sp * sy, cp],
      [cp * cy, cp * sy, sp],
    ]; // right, up, toward the viewer
  }

  turn(dx, dy) {
    this.set(this.yaw - dx, this.pitch + dy);
  }

  /** Return [right, up, toward] of a direction. */
  look(x, y, z) {
    const [r, u, f] = this.rows;
    return [r[0] * x + r[1] * y + r[2] * z, u[0] * x + u[1] * y + u[2] * z, f[0] * x + f[1] * y + f[2] * z];
  }

  /** Return the direction on the near side under [right, up], or on the rim if that is outside. */
  unlook(right, up) {
    const far = Math.hypot(right, up), scale = far > 1 ? 1 / far : 1;
    const a = right * scale, b = up * scale, c = Math.sqrt(Math.max(0, 1 - a * a - b * b)), [r, u, f] = this.rows;
    return [0, 1, 2].map((k) => a * r[k] + b * u[k] + c * f[k]);
  }
}
