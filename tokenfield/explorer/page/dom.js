/** Small helpers for elements. Text is always set as text, never as HTML. */

/** Return a new element with properties and children; `on...` are listeners, other names are attributes. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (name === "math") element.append(...math(value));
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Return a formula as nodes: `a_b` and `a_{b c}` are lowered, `a^b` and `a^{b c}` raised. */
export function math(text) {
  const parts = text.split(/([_^](?:\{[^}]*\}|[\p{L}\p{N}]+))/u).filter(Boolean);
  return parts.map((part) => (/^[_^]./.test(part) ? make(part[0] === "_" ? "sub" : "sup", { text: part.slice(1).replace(/^\{|\}$/g, "") }) : part));
}

/** Return a drawing of lines, 20 x 20. */
export function icon(path) {
  const [svg, line] = ["svg", "path"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

/** Return a labeled slider: {element, set(value), input}. `shown` turns a value into text. */
export function slider(label, { min, max, step, value, shown = String, title, onchange }) {
  const output = make("output", { text: shown(value) });
  const input = make("input", {
    type: "range", min: String(min), max: String(max), step: String(step), "aria-label": label, title,
    oninput: () => {
      output.textContent = shown(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
      onchange(Number(input.value));
    },
  });
  input.value = String(value);
  input.setAttribute("aria-valuetext", output.textContent);
  const set = (next) => {
    input.value = String(next);
    output.textContent = shown(next);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  return { element: make("label", { class: "row slider" }, make("span", { text: label, title }), input, output), set, input };
}

/** Return a labeled choice: {element, set(value), select}. */
export function choice(label, options, value, onchange, title) {
  const select = make("select", { "aria-label": label, title, onchange: () => onchange(select.value) });
  for (const [key, text] of options) select.append(make("option", { value: key, text }));
  select.value = value;
  return { element: make("label", { class: "row" }, make("span", { text: label, title }), select), set: (next) => (select.value = next), select };
}

/** Return a check box with its text: {element, set(value), input}. */
export function check(label, value, onchange, title) {
  const input = make("input", { type: "checkbox", "aria-label": label, onchange: () => onchange(input.checked) });
  input.checked = value;
  return { element: make("label", { class: "check", title }, input, make("span", { text: label })), set: (next) => (input.checked = next), input };
}
