// The picture of the sessions on their time axis, its words, and its table.

import { axisCeiling, Bars } from './axis-bars.js';
import { Canvas } from './axis-canvas.js';
import { $, h, setText, updateChildren } from './dom.js';
import { countNoun, formatCount, formatDuration } from './format.js';

// frameInterval is the time between two pictures, in milliseconds. Bars move slowly: more pictures look no
// better.
const frameInterval = 33;
// maxTableRows limits the table: a longer one is no easier to read than the picture.
const maxTableRows = 100;
// reachMemory is the time for which the axis keeps its reach, in milliseconds.
const reachMemory = 60_000;
// minCeiling is the least upper end of the scale, so that a single session is no tower.
const minCeiling = 6;
// selectableRanges are the ranges of the axis, in milliseconds. 0: everything.
const selectableRanges = [0, 1e4, 6e4, 6e5];

// start builds the picture, and returns the view for main.js.
export function start() {
  const axis = new Axis($('#axis'));
  return { hear: { buckets: (answer) => axis.take(answer) }, open: () => axis.open(), close: () => axis.close(), lost: () => axis.lost() };
}

class Axis {
  #bars = new Bars();
  #canvas;
  #plot = $('#axis-plot');
  #pick = $('#axis-range');
  #answer = null;
  #lasts = []; // where the last bar was, lately
  #heard = 0; // sessions that moved since the answer before
  #frame = 0;
  #drawn = 0;
  #open = false;
  #pointer = null; // where it is over the picture
  #still = matchMedia('(prefers-reduced-motion: reduce)');

  constructor() {
    this.#canvas = new Canvas($('canvas', this.#plot));
    this.#pick.append(...selectableRanges.map((ms) => h('option', { value: ms }, ms === 0 ? 'all' : `the next ${formatDuration(ms)}`)));
    this.#pick.addEventListener('change', () => this.#changed());
    new ResizeObserver(() => this.#dress()).observe(this.#plot);
    document.documentElement.addEventListener('colours', () => this.#dress());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#dress());
    document.addEventListener('visibilitychange', () => this.#run());
    this.#plot.addEventListener('pointermove', (event) => this.#point(event.clientX - this.#plot.getBoundingClientRect().left));
    this.#plot.addEventListener('pointerleave', () => this.#point(null));
    this.#plot.addEventListener('blur', () => this.#point(null));
    this.#plot.addEventListener('keydown', (event) => this.#press(event));
    $('#axis-table').addEventListener('toggle', () => this.#table());
  }

  take(answer) {
    const local = performance.now();
    if (this.#answer && this.#answer.leader !== answer.leader) {
      this.#bars.forget();
    }
    this.#answer = answer;
    const ways = this.#bars.take(answer, local);
    this.#heard = ways.moves.reduce((sum, m) => sum + m.count, 0);
    if (this.#open && !document.hidden && !this.#still.matches) {
      this.#canvas.fly(ways, local);
    }
    this.#changed();
  }

  // lost says that answers no longer come: what is shown is old, and stands still.
  lost() {
    this.#bars.forget();
    this.#answer = null;
    setText($('#axis-text'), 'The member does not answer, so nobody can say when sessions fall due.');
    this.#run();
  }

  open() {
    this.#open = true;
    this.#dress();
    this.#run();
  }

  close() {
    this.#open = false;
    this.#run();
  }

  #dress() {
    this.#canvas.dress();
    this.#changed();
  }

  // changed brings the scales, the words and the table up to date.
  #changed() {
    const all = this.#answer?.buckets ?? [];
    this.#canvas.range = Math.min(Number(this.#pick.value) || Infinity, this.#reach(all));
    const step = this.#canvas.step(this.#bars.tick);
    this.#canvas.top = axisCeiling(Math.max(0, ...this.#bars.grouped(step).map((g) => g.count)), minCeiling);
    this.#words(all);
    this.#table();
    this.#tip();
    this.#run();
  }

  // reach returns how far the axis has to reach. It stays for a while when the last bar moves, so that the bars
  // move, and not the scale.
  #reach(all) {
    const local = performance.now();
    this.#lasts.push({ local, last: Math.max(2 * this.#bars.tick, ...all.map((b) => b.due_ms)) });
    this.#lasts = this.#lasts.filter((one) => local - one.local < reachMemory);
    return Math.max(...this.#lasts.map((one) => one.last));
  }

  #words(all) {
    const answer = this.#answer;
    if (!answer) {
      return;
    }
    if (answer.leader === 0) {
      const reasons = answer.silent.map((s) => `member ${s.member} (${s.reason})`).join(', ');
      setText($('#axis-text'), `Nobody can say when sessions fall due, because no leader answers${reasons && `: ${reasons}`}.`);
      return;
    }
    const sessions = all.reduce((sum, b) => sum + b.sessions, 0) + (answer.later ?? 0);
    const held = all.filter((b) => b.sessions > 0);
    const first = held.length > 0 ? ` The first falls due in ${formatDuration(Math.max(0, held[0].due_ms))}, and the last in ${formatDuration(held.at(-1).due_ms)}.` : '';
    const after = all.filter((b) => b.due_ms > this.#canvas.range).reduce((sum, b) => sum + b.sessions, 0) + (answer.later ?? 0);
    const beyond = after > 0 ? ` ${countNoun(after, 'session')} later than shown.` : '';
    setText($('#axis-text'), `${countNoun(sessions, 'session')} in buckets of ${formatDuration(answer.tick_ms)}, by the clock of member ${answer.leader}, which leads.${first}${beyond} ${countNoun(this.#heard, 'session')} moved since the last look.`);
  }

  // run draws as long as somebody looks.
  #run() {
    cancelAnimationFrame(this.#frame);
    if (!this.#open || document.hidden) {
      return;
    }
    const draw = (local) => {
      if (local - this.#drawn >= frameInterval || this.#still.matches) {
        this.#drawn = local;
        this.#canvas.draw(this.#bars, local, this.#still.matches);
      }
      if (!this.#still.matches) {
        this.#frame = requestAnimationFrame(draw);
      }
    };
    this.#frame = requestAnimationFrame(draw);
  }

  // table lists the buckets, for those who do not see the picture.
  #table() {
    const details = $('#axis-table');
    if (!details.open || !this.#answer) {
      return;
    }
    const body = $('tbody', details) ?? this.#newTable(details);
    const rows = this.#answer.buckets.filter((b) => b.sessions > 0);
    updateChildren(body, rows.slice(0, maxTableRows), (b) => rows.indexOf(b), () => h('tr', {}, h('td'), h('td', { class: 'number' })), (tr, b) => {
      setText(tr.children[0], b.due_ms <= 0 ? 'due' : `in ${formatDuration(b.due_ms)}`);
      setText(tr.children[1], formatCount(b.sessions));
    });
    setText($('caption', details), rows.length > maxTableRows ? `The first ${maxTableRows} of ${rows.length} buckets with sessions` : 'Buckets with sessions');
  }

  #newTable(details) {
    const body = h('tbody');
    $('div', details).append(h('table', { class: 'small' }, h('caption'), h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Falls due'), h('th', { scope: 'col', class: 'number' }, 'Sessions'))), body));
    return body;
  }

  // held returns the bars with sessions that the picture has, each with its place.
  #held() {
    const step = this.#canvas.step(this.#bars.tick);
    const now = this.#bars.now(performance.now());
    return this.#bars.grouped(step).filter((g) => g.count > 0 && g.due - step - now < this.#canvas.range)
      .map((g) => ({ ...g, left: this.#canvas.x(g.due - step - now), right: this.#canvas.x(g.due - now) }));
  }

  #point(x) {
    this.#pointer = x;
    this.#choose(null);
  }

  // press goes from bar to bar.
  #press(event) {
    const bars = this.#held();
    const here = this.#place(bars);
    const to = {
      ArrowRight: here + 1, ArrowUp: here + 1, ArrowLeft: here < 0 ? bars.length - 1 : here - 1, ArrowDown: here - 1, Home: 0, End: bars.length - 1,
    }[event.key];
    if (event.key === 'Escape') {
      this.#point(null);
    } else if (to !== undefined && bars.length > 0) {
      event.preventDefault();
      this.#pointer = null;
      this.#choose(bars[Math.min(Math.max(to, 0), bars.length - 1)].due);
    }
  }

  // place returns which of some bars is chosen: that under the pointer or, if sessions have left the bar that
  // was chosen by keys, the one next to its place. It is -1 if none is.
  #place(bars) {
    if (this.#pointer !== null) {
      return bars.findIndex((g) => this.#pointer >= g.left && this.#pointer < g.right);
    }
    const due = this.#canvas.chosen;
    if (due === null || bars.length === 0) {
      return -1;
    }
    const apart = bars.map((g) => Math.abs(g.due - due));
    return apart.indexOf(Math.min(...apart));
  }

  #choose(due) {
    this.#canvas.chosen = due;
    this.#tip();
    if (this.#still.matches) {
      this.#run();
    }
  }

  // tip says what the chosen bar is, also to a screen reader.
  #tip() {
    const tip = $('.tip', this.#plot);
    const bars = this.#held();
    const step = this.#canvas.step(this.#bars.tick);
    const at = this.#place(bars);
    this.#canvas.chosen = at < 0 ? null : bars[at].due;
    tip.hidden = at < 0;
    this.#plot.setAttribute('aria-valuemax', Math.max(0, bars.length - 1));
    this.#plot.setAttribute('aria-valuenow', Math.max(0, at));
    if (at < 0) {
      this.#plot.setAttribute('aria-valuetext', 'none chosen');
      return;
    }
    const ahead = bars[at].due - this.#bars.now(performance.now());
    const when = ahead <= 0 ? 'due now' : `due in ${formatDuration(Math.max(0, ahead - step))} to ${formatDuration(ahead)}`;
    setText(tip, `${countNoun(bars[at].count, 'session')}, ${when}`);
    this.#plot.setAttribute('aria-valuetext', tip.textContent);
    const middle = (bars[at].left + bars[at].right) / 2;
    tip.style.left = `${Math.min(Math.max(middle - tip.offsetWidth / 2, 0), this.#canvas.width - tip.offsetWidth)}px`;
  }
}
