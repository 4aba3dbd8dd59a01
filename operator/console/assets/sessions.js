// The sessions: the table with its filter, and who owns a node.

import { get } from './ask.js';
import { $, badge, h, write } from './dom.js';
import { asOf, count, none, plural, span } from './format.js';
import { members } from './ensemble.js';
import { Pages } from './pages.js';
import { Table } from './table.js';
import { visit } from './windows.js';

// What comes first in each order, and how its column is sorted then.
const orders = {
  left: { first: 'the least time left', direction: 'ascending' },
  watches: { first: 'the most watches', direction: 'descending' },
  ephemerals: { first: 'the most ephemeral nodes', direction: 'descending' },
};

const tones = { connected: 'good', disconnected: 'warn', unknown: 'plain' };

// start makes the view, and returns what main.js needs of it.
export function start() {
  const table = new Table({
    label: 'Sessions',
    key: (s) => s.id,
    open: (s) => visit('session', s.id),
    sort: (order) => {
      form.elements.sort.value = form.elements.sort.value === order ? '' : order;
      filtered();
    },
    empty: 'No session.',
    columns: [
      { title: 'Session', cell: (s) => s.id },
      { title: 'State', cell: (s) => badge(s.state, tones[s.state]) },
      { title: 'Member', kind: 'number', cell: (s) => s.member || none },
      { title: 'Address', kind: 'code', cell: (s) => s.address || none },
      { title: 'Time left', kind: 'left', order: 'left', cell: left },
      { title: 'Timeout', kind: 'number', cell: (s) => span(s.timeout_ms) },
      { title: 'Heard', kind: 'number', cell: (s) => (s.heard_ms == null ? none : `${span(s.heard_ms)} ago`) },
      { title: 'Ephemerals', kind: 'number', order: 'ephemerals', cell: (s) => count(s.ephemerals) },
      { title: 'Watches', kind: 'number', order: 'watches', cell: (s) => count(s.watches) },
    ],
  });
  const form = $('#filter');
  const pages = new Pages({
    root: $('#sessions'), table, noun: 'session',
    ask: (from, limit, signal) => get('sessions', { ...filter(form), sort: form.elements.sort.value, from, limit }, signal),
    words: ({ rows }) => (rows > 1 && form.elements.sort.value ? `the ${count(rows)} with ${orders[form.elements.sort.value].first}` : ''),
    loaded: () => total(),
  });
  let held = null; // sessions in the leader's table; null: not known
  const total = () => {
    if (pages.seen.known) {
      // A sorted list has one page: if that is full, there may be more.
      const { count, last, full } = pages.seen;
      write($('#sessions .total'), amount(count, last && !(full && form.elements.sort.value), isOn(form), held));
    }
  };
  const filtered = () => {
    const on = isOn(form);
    table.sorted(form.elements.sort.value, orders[form.elements.sort.value]?.direction);
    table.explain(on ? 'No session passes the filter.' : 'There is no session.');
    pages.first();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    filtered();
  });
  form.addEventListener('change', filtered);
  form.addEventListener('reset', () => setTimeout(filtered));
  $('#owner').addEventListener('submit', (event) => {
    event.preventDefault();
    own(event.target.elements.path.value.trim());
  });
  return {
    hear: {
      status: (answer) => offer(form.elements.member, members(answer)),
      buckets: (answer) => {
        held = answer.leader === 0 ? null : answer.buckets.reduce((sum, b) => sum + b.sessions, answer.later ?? 0);
        total();
      },
    },
    lost: () => {
      held = null;
    },
    open: filtered,
    close: () => pages.stop(),
    changed: () => pages.refresh(),
  };
}

// filter returns the parameters that the form stands for.
function filter(form) {
  const text = form.elements.text.value.trim();
  const wanted = { member: form.elements.member.value, state: form.elements.state.value };
  wanted[/^0x/i.test(text) ? 'id' : 'address'] = /^0x/i.test(text) ? text.toLowerCase() : text;
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== ''));
}

const isOn = (form) => Object.keys(filter(form)).length > 0;

// amount says how many sessions there are. seen of them pass the filter, if there is one, and maybe more unless exact. held is how
// many there are in all, or null if nobody has said that.
function amount(seen, exact, filtered, held) {
  const passing = exact ? count(seen) : `at least ${count(seen)}`;
  if (filtered) {
    return `${passing} of ${held === null ? 'all' : count(held)} sessions`;
  }
  return held === null ? `${passing} ${seen === 1 ? 'session' : 'sessions'}` : plural(held, 'session');
}

// left shows how much of its timeout a session has left.
function left(s) {
  if (s.left_ms == null) {
    return none;
  }
  const share = Math.min(1, Math.max(0, s.left_ms / s.timeout_ms));
  return h('span', { class: 'left' }, h('meter', { min: 0, max: 1, low: 0.3, high: 0.31, optimum: 1, value: share, 'aria-hidden': 'true' }), span(s.left_ms));
}

// offer makes the members those that the filter can choose.
function offer(select, all) {
  const ids = all.map((m) => String(m.member));
  if (ids.join() !== [...select.options].slice(1).map((o) => o.value).join()) {
    const chosen = select.value;
    select.replaceChildren(h('option', { value: '' }, 'all'), ...ids.map((id) => h('option', { value: id }, id)));
    select.value = ids.includes(chosen) ? chosen : '';
  }
}

const plain = {
  none: 'There is no such node.', persistent: 'Nobody: the node is persistent.', container: 'Nobody: the node is a container.', ttl: 'Nobody: the node has a time to live.',
};

// own says who owns a node, and as of when: it is looked up once.
async function own(path) {
  const answer = $('#owner-answer');
  const say = (...parts) => answer.replaceChildren(...parts);
  say('Looking…');
  let owner;
  try {
    owner = await get('owner', { path });
  } catch (err) {
    say(err.message);
    return;
  }
  const then = ` (${asOf(Date.now())})`;
  if (owner.id === '') {
    say(plain[owner.kind] ?? owner.kind, then);
  } else if (owner.ended) {
    say(`Session ${owner.id}, which has ended: the node is about to be removed.`, then);
  } else {
    const s = owner.session;
    say('Session ', h('button', { type: 'button', class: 'name', onclick: () => visit('session', owner.id) }, owner.id),
      s ? `, ${s.state}${s.member ? ` on member ${s.member}` : ''}${s.address ? `, from ${s.address}` : ''}` : '', then);
  }
}
