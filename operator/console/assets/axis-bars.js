// What the time axis shows: the bars, how they move, and which sessions went from one to another. Times are
// milliseconds on the leader's clock. Nothing here draws.

// maxMoves limits the moves that are shown at once: more could not be distinguished.
const maxMoves = 60;

// Bars are the buckets of the leader's table over time.
export class Bars {
  bars = []; // {due, count, height}, by due. height follows count, so that a change can be seen.
  tick = 1000;
  #skew = null; // the leader's clock, less performance.now()

  // now returns the time on the leader's clock.
  now(local) {
    return this.#skew == null ? 0 : local + this.#skew;
  }

  // take takes an answer of /v1/buckets that came at local, and returns what happened since the last one:
  // {moves: [{from, to, count}], opened: [{to, count}], ended: [{from, count}]}. from and to are bars.
  take(answer, local) {
    const at = Date.parse(answer.at);
    this.#set(at - local);
    if (answer.tick_ms !== this.tick) {
      this.bars = [];
      this.tick = answer.tick_ms;
    }
    const fresh = answer.buckets.map((b) => ({ due: at + b.due_ms, count: b.sessions, height: 0, before: 0 }));
    const gone = matchBars(this.bars, fresh, this.tick / 2);
    const first = this.bars.length === 0;
    const left = gone.filter((b) => b.count > 0);
    const flowing = [...left.map((b) => ({ ...b, before: b.count, count: 0 })), ...fresh];
    for (const bar of gone) {
      bar.count = 0; // it is shown until it has shrunk
    }
    this.bars = [...fresh, ...gone.filter((b) => b.height > 0)].sort(compareDue);
    if (first) {
      for (const bar of fresh) {
        bar.height = bar.count;
      }
      return { moves: [], opened: [], ended: [] };
    }
    return sessionMoves(flowing);
  }

  // forget drops all bars. The next answer is the first one.
  forget() {
    this.bars = [];
    this.#skew = null;
  }

  // settle moves the heights towards the counts, and reports whether all are there. ms is the time since the
  // last call; with Infinity they are there at once.
  settle(ms) {
    const part = 1 - Math.exp(-ms / 120);
    let done = true;
    for (const bar of this.bars) {
      bar.height += (bar.count - bar.height) * part;
      if (Math.abs(bar.count - bar.height) < 0.01) {
        bar.height = bar.count;
      }
      done &&= bar.height === bar.count;
    }
    if (done) {
      this.bars = this.bars.filter((b) => b.count > 0);
    }
    return done;
  }

  // grouped returns the bars, or sums of neighbours if step is more than a tick. Groups lie still on the
  // leader's clock, so that no session jumps between them.
  grouped(step) {
    if (step <= this.tick) {
      return this.bars;
    }
    const groups = new Map();
    for (const bar of this.bars) {
      const due = Math.ceil(bar.due / step - 1e-6) * step;
      const group = groups.get(due) ?? { due, count: 0, height: 0 };
      group.count += bar.count;
      group.height += bar.height;
      groups.set(due, group);
    }
    return [...groups.values()];
  }

  // An answer takes a while to come, and not always as long. The clock follows slowly, so that the bars do
  // not tremble, unless the leader is another.
  #set(skew) {
    const apart = this.#skew == null ? Infinity : Math.abs(skew - this.#skew);
    this.#skew = apart > 2000 ? skew : this.#skew + (skew - this.#skew) * 0.1;
  }
}

const compareDue = (a, b) => a.due - b.due;

// matchBars gives the fresh bars the heights of the old ones that fall due at the same time, within slack. It
// returns the old ones without a match.
function matchBars(old, fresh, slack) {
  const gone = [];
  let i = 0;
  for (const bar of old) {
    while (i < fresh.length && fresh[i].due < bar.due - slack) {
      i++;
    }
    if (i < fresh.length && fresh[i].due <= bar.due + slack) {
      fresh[i].height = bar.height;
      fresh[i].before = bar.count;
      i++;
    } else {
      gone.push(bar);
    }
  }
  return gone;
}

// sessionMoves guesses how sessions moved from bar to bar. Those that left a bar were heard from, and are in a
// later one. The rest were opened or have ended.
function sessionMoves(bars) {
  const losing = bars.filter((b) => b.count < b.before).sort(compareDue).map((bar) => ({ bar, left: bar.before - bar.count }));
  const gaining = bars.filter((b) => b.count > b.before).sort(compareDue).map((bar) => ({ bar, left: bar.count - bar.before }));
  const moves = [];
  for (const from of losing) {
    for (const to of gaining) {
      const n = Math.min(from.left, to.left);
      if (n > 0 && to.bar.due > from.bar.due) {
        moves.push({ from: from.bar, to: to.bar, count: n });
        from.left -= n;
        to.left -= n;
      }
    }
  }
  return {
    moves,
    opened: gaining.filter((g) => g.left > 0).map((g) => ({ to: g.bar, count: g.left })),
    ended: losing.filter((l) => l.left > 0).map((l) => ({ from: l.bar, count: l.left })),
  };
}

// sampleMoves returns the number of dots for each move: together at most maxMoves, and at least one each while
// there is room.
export function sampleMoves(moves) {
  const all = moves.reduce((sum, m) => sum + m.count, 0);
  return moves.slice(0, maxMoves).map((m) => ({ ...m, dots: all <= maxMoves ? m.count : Math.max(1, Math.floor((m.count / all) * maxMoves)) }));
}

// axisCeiling returns the round number, of at least least, at which an axis for n ends.
export function axisCeiling(n, least) {
  if (n <= least) {
    return least;
  }
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 12].map((f) => f * power).find((c) => c >= n * 1.04 && Number.isInteger(c));
}

// axisStep returns the round distance of marks on an axis of ms milliseconds with at most n marks.
export function axisStep(ms, n) {
  const steps = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
  return steps.find((s) => ms / s <= n) ?? 864e5;
}
