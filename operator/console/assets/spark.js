// A number with its course over the last minutes.

import { h, setText, svg } from './dom.js';
import { axisCeiling } from './axis-bars.js';

// maxValues limits the values of a chart: five minutes at one per second. With fewer than minWidthValues, its
// line does not reach the left edge.
const maxValues = 300;
const minWidthValues = 60;
const width = 240;
const height = 44;

// Spark shows the last value of a course, and the course as a line. format writes a value, and of says whose
// values they are, if they are not everybody's.
export class Spark {
  #values = []; // null: a value that is missing
  #format;
  #title;
  #of;
  #number = h('p', { class: 'value' }, '–');
  #note = h('p', { class: 'sub' }, ' ');
  #area = svg('path', { class: 'area' });
  #line = svg('path', { class: 'line' });
  #picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' }, this.#area, this.#line);

  constructor(title, format, of = '') {
    this.#title = title;
    this.#of = of;
    this.#format = format;
    this.element = h('article', { class: 'tile' }, h('h2', {}, title), this.#number, this.#picture, this.#note);
    this.#draw();
  }

  // push adds a value, or null if it is not known. note is a line below.
  push(value, note) {
    this.#values.push(value ?? null);
    if (this.#values.length > maxValues) {
      this.#values.shift();
    }
    setText(this.#number, value == null ? '–' : this.#format(value));
    setText(this.#note, note ?? [this.#of, this.#extremes()].filter(Boolean).join(': '));
    this.#draw();
  }

  #extremes() {
    const known = this.#values.filter((v) => v !== null);
    const [least, most] = [Math.min(...known), Math.max(...known)].map(this.#format);
    return known.length < 2 ? '' : least === most ? 'steady' : `${least} to ${most}`;
  }

  #draw() {
    const top = chartCeiling(Math.max(0, ...this.#values.map((v) => v ?? 0)));
    const last = this.#values.length - 1;
    const point = (v, i) => {
      const x = width - ((last - i) * width) / Math.max(minWidthValues - 1, last);
      return [x.toFixed(1), (height - 1 - (v / top) * (height - 3)).toFixed(1)];
    };
    const runs = [[]];
    this.#values.forEach((v, i) => (v === null ? runs.push([]) : runs.at(-1).push(point(v, i))));
    const lines = runs.filter((r) => r.length > 1);
    this.#line.setAttribute('d', lines.map((r) => `M${r.map((p) => p.join(' ')).join('L')}`).join(''));
    this.#area.setAttribute('d', lines.map((r) => `M${r[0][0]} ${height}L${r.map((p) => p.join(' ')).join('L')}L${r.at(-1)[0]} ${height}Z`).join(''));
    const known = this.#values.filter((v) => v !== null);
    this.#picture.setAttribute('aria-label', known.length < 2 ? `${this.#title}: no course yet` : `${this.#title}, course: ${this.#extremes()}`);
  }
}

// chartCeiling returns the upper end for values up to n, which may be small fractions.
function chartCeiling(n) {
  if (n === 0) {
    return 1;
  }
  const power = 10 ** Math.max(0, 3 - Math.floor(Math.log10(n)));
  return axisCeiling(n * power, 1) / power;
}
