// Draws the time axis on a canvas.

import { axisStep, sampleMoves } from './axis-bars.js';
import { formatDuration, shortNumber } from './format.js';

// Lengths are pixels of CSS.
const margins = { left: 44, right: 14, top: 22, bottom: 26 };
const overdueWidth = 22; // room left of "now" for what is due already
const minBarWidth = 5; // a bar; if there were more bars, neighbours become one
const maxSingleSessions = 12; // up to so many sessions in the largest bucket, each is drawn by itself
const labelHeight = 16; // the height of a figure over a bar
const flightTime = 700; // ms that a dot is under way

// Canvas draws Bars on an element.
export class Canvas {
  #canvas;
  #paint;
  #colours = {};
  #dots = []; // under way: {kind, from, to, height, begun, lane}
  #groups = []; // the bars as drawn last, with x and width
  #last = 0;
  #range = 0; // ms that the axis shows, as drawn; it follows range
  #top = 1; // sessions at the upper end, as drawn; it follows top
  range = 1000;
  top = 1;
  chosen = null; // time at which the bar falls due that stands out
  width = 0;
  height = 0;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#paint = canvas.getContext('2d');
  }

  // dress takes the colours of the page, and its size.
  dress() {
    const style = getComputedStyle(this.#canvas);
    for (const name of ['ink', 'soft', 'line', 'far', 'middle', 'near', 'due', 'panel', 'accent', 'good']) {
      this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.#colours.font = style.fontFamily;
    const box = this.#canvas.getBoundingClientRect();
    const scale = window.devicePixelRatio || 1;
    this.width = box.width;
    this.height = box.height;
    this.#canvas.width = Math.round(box.width * scale);
    this.#canvas.height = Math.round(box.height * scale);
    this.#paint.setTransform(scale, 0, 0, scale, 0, 0);
  }

  // fly has dots go the ways that sessions went.
  fly({ moves, opened, ended }, local) {
    const add = (kind, all) => {
      for (const way of sampleMoves(all)) {
        for (let i = 0; i < way.dots; i++) {
          this.#dots.push({ kind, from: way.from?.due, to: way.to?.due, begun: local + i * Math.min(25, 200 / way.dots), lane: Math.random() });
        }
      }
    };
    add('move', moves);
    add('open', opened);
    add('end', ended);
  }

  // step returns how many milliseconds a bar stands for: a tick, or more if ticks were too thin.
  step(tick) {
    const room = this.#width();
    const least = (minBarWidth * this.range) / room;
    return least <= tick ? tick : tick * Math.ceil(least / tick);
  }

  #width() {
    return Math.max(50, this.width - margins.left - margins.right - overdueWidth);
  }

  // draw draws the bars as they are at local. still leaves out what moves by itself.
  draw(bars, local, still) {
    const ms = still ? Infinity : Math.min(100, local - this.#last);
    this.#last = local;
    bars.settle(ms);
    const part = 1 - Math.exp(-ms / 150);
    this.#range = this.#range === 0 ? this.range : this.#range + (this.range - this.#range) * part;
    this.#top += (this.top - this.#top) * part;
    const p = this.#paint;
    p.clearRect(0, 0, this.width, this.height);
    p.font = `12px ${this.#colours.font}`;
    this.#scale();
    this.#marks();
    this.#bars(bars, bars.now(local));
    this.#now();
    if (still) {
      this.#dots = [];
    } else {
      this.#flights(bars.now(local), local);
    }
    this.#counts(this.step(bars.tick)); // above the dots
  }

  // x returns where a bar stands that falls due in ahead milliseconds, and y where one of n sessions ends.
  x(ahead) {
    return margins.left + overdueWidth + (ahead / this.#range) * this.#width();
  }

  y(n) {
    const floor = this.height - margins.bottom;
    return floor - (n / this.#top) * (floor - margins.top);
  }

  // scale draws the lines of the counts.
  #scale() {
    const p = this.#paint;
    p.strokeStyle = this.#colours.line;
    p.fillStyle = this.#colours.soft;
    p.textAlign = 'right';
    p.textBaseline = 'middle';
    p.lineWidth = 1;
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(this.y(this.top * share)) + 0.5;
      p.beginPath();
      p.moveTo(margins.left, y);
      p.lineTo(this.width - margins.right, y);
      p.stroke();
      p.fillText(shortNumber(this.top * share), margins.left - 8, y);
    }
  }

  // marks draws the times below the axis.
  #marks() {
    const p = this.#paint;
    p.textBaseline = 'top';
    p.fillStyle = this.#colours.soft;
    const apart = axisStep(this.range, Math.max(2, Math.floor(this.#width() / 70)));
    const floor = this.height - margins.bottom;
    for (let ahead = 0; ahead <= this.#range * 1.001; ahead += apart) {
      const x = Math.round(this.x(ahead)) + 0.5;
      p.strokeStyle = this.#colours.line;
      p.beginPath();
      p.moveTo(x, floor);
      p.lineTo(x, floor + 5);
      p.stroke();
      p.textAlign = x > this.width - 40 ? 'right' : 'center';
      p.fillText(ahead === 0 ? 'now' : `in ${formatDuration(ahead)}`, Math.min(x, this.width - 2), floor + 8);
    }
  }

  // now draws the line at which sessions expire.
  #now() {
    const p = this.#paint;
    p.strokeStyle = this.#colours.due;
    p.lineWidth = 1.5;
    p.beginPath();
    p.moveTo(this.x(0), margins.top - 8);
    p.lineTo(this.x(0), this.height - margins.bottom);
    p.stroke();
  }

  #bars(bars, now) {
    const p = this.#paint;
    const wide = this.step(bars.tick);
    const single = this.top <= maxSingleSessions && wide === bars.tick;
    p.save();
    p.beginPath();
    p.rect(margins.left, 0, this.width - margins.left - margins.right, this.height);
    p.clip();
    p.fillStyle = this.#shades(bars.tick);
    this.#groups = [];
    for (const group of bars.grouped(wide)) {
      const from = this.x(group.due - wide - now);
      const width = this.x(group.due - now) - from;
      if (from > this.width || from + width < margins.left) {
        continue;
      }
      const gap = width > 12 ? 2 : width > 6 ? 1 : 0.5;
      this.#groups.push({ ...group, x: from, width });
      p.globalAlpha = this.chosen === null || withinHalf(this.chosen, group.due, wide) ? 1 : 0.45;
      if (single) {
        this.#blocks(from + gap / 2, width - gap, group.height);
      } else {
        this.#bar(from + gap / 2, width - gap, group.height);
      }
    }
    p.globalAlpha = 1;
    p.restore();
  }

  // shades is the colour of what is far from its end, and in the last ticks that of what is near. Clients
  // are heard long before, so that a session there is late.
  #shades(tick) {
    const most = 5 * tick;
    const shades = this.#paint.createLinearGradient(this.x(0), 0, this.x(most), 0);
    const c = this.#colours;
    for (const [ticks, colour] of [[0, c.near], [1, c.near], [2.5, c.middle], [5, c.far]]) {
      shades.addColorStop(ticks / 5, colour);
    }
    return shades;
  }

  #bar(x, width, n) {
    if (n <= 0) {
      return;
    }
    const floor = this.height - margins.bottom;
    const height = Math.max(2, floor - this.y(n)); // a single session shows beside thousands
    const p = this.#paint;
    p.beginPath();
    p.roundRect(x, floor - height, width, height, [Math.min(3, width / 3), Math.min(3, width / 3), 0, 0]);
    p.fill();
  }

  // blocks draws each session by itself.
  #blocks(x, width, n) {
    const floor = this.height - margins.bottom;
    const each = (floor - margins.top) / this.#top;
    const p = this.#paint;
    for (let i = 0; i < n; i++) {
      const height = Math.min(1, n - i) * each - 2;
      if (height > 0) {
        p.beginPath();
        p.roundRect(x, floor - i * each - height - 1, width, height, Math.min(4, height / 2));
        p.fill();
      }
    }
  }

  // counts writes over the bars how many sessions they have, where there is room.
  #counts(wide) {
    const p = this.#paint;
    p.fillStyle = this.#colours.ink;
    p.strokeStyle = this.#colours.panel; // an edge around the figures, so that a dot behind them does not disturb
    p.lineWidth = 4;
    p.lineJoin = 'round';
    p.textAlign = 'center';
    p.textBaseline = 'bottom';
    for (const g of this.#groups) {
      const text = shortNumber(g.count);
      const middle = g.x + g.width / 2;
      const fits = g.width >= p.measureText(text).width + 3 && middle > margins.left + 8 && middle < this.width - margins.right;
      if (g.count > 0 && (fits || (this.chosen !== null && withinHalf(this.chosen, g.due, wide)))) {
        p.strokeText(text, middle, this.#crown(g.height) - 3);
        p.fillText(text, middle, this.#crown(g.height) - 3);
      }
    }
  }

  // crown returns where a bar of n sessions ends.
  #crown(n) {
    return Math.min(this.height - margins.bottom - 2, this.y(n));
  }

  // crownAt returns the middle of the bar that falls due at a time, and where its figure ends.
  #crownAt(due, now) {
    const x = this.x(due - now);
    const group = this.#groups.find((g) => x > g.x && x <= g.x + g.width + 0.5);
    return group ? { x: group.x + group.width / 2, y: this.#crown(group.height) - labelHeight } : { x, y: this.height - margins.bottom };
  }

  #flights(now, local) {
    const p = this.#paint;
    this.#dots = this.#dots.filter((d) => local - d.begun < flightTime);
    p.strokeStyle = this.#colours.panel; // tells a dot from a bar of its colour
    p.lineWidth = 1.5;
    for (const d of this.#dots) {
      const t = (local - d.begun) / flightTime;
      if (t < 0) {
        continue;
      }
      const eased = t < 0.5 ? 2 * t * t : 1 - (2 - 2 * t) ** 2 / 2;
      const from = this.#crownAt(d.from ?? d.to, now);
      const to = this.#crownAt(d.to ?? d.from, now);
      const rise = { move: Math.sin(Math.PI * eased) * (14 + 40 * d.lane), open: 40 * (1 - eased), end: 40 * eased }[d.kind];
      const x = from.x + (to.x - from.x) * eased + (d.lane - 0.5) * 12;
      const y = from.y + (to.y - from.y) * eased - 5 - rise;
      p.globalAlpha = Math.min(1, 3 * Math.sin(Math.PI * t));
      p.fillStyle = this.#colours[{ move: 'accent', open: 'good', end: 'due' }[d.kind]];
      p.beginPath();
      p.arc(x, Math.max(4, y), 3, 0, 2 * Math.PI);
      p.fill();
      p.stroke();
    }
    p.globalAlpha = 1;
  }
}

// withinHalf reports whether two times belong to the same bar.
const withinHalf = (a, b, wide) => Math.abs(a - b) <= wide / 2;
