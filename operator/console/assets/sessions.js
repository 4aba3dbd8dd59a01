// The sessions: the table with its filter, and who owns a node.

import { getJSON } from './requests.js';
import { $, badge, h, setText } from './dom.js';
import { asOf, countNoun, formatCount, formatDuration, unknownValue } from './format.js';
import { memberRows } from './ensemble.js';
import { Pages } from './pages.js';
import { Past } from './past.js';
import { Table } from './table.js';
import { visitWindow } from './windows.js';

// What comes first in each order, and how its column is sorted then.
const sortOrders = {
  left: { first: 'the least time left', direction: 'ascending' },
  watches: { first: 'the most watches', direction: 'descending' },
  ephemerals: { first: 'the most ephemeral nodes', direction: 'descending' },
};

const stateTones = { connected: 'good', disconnected: 'warn', unknown: 'plain' };

// start makes the view, and returns what main.js needs of it.
export function start() {
  const table = new Table({
    label: 'Sessions',
    key: (s) => s.id,
    open: (s) => visitWindow('session', s.id),
    sort: (order) => {
      form.elements.sort.value = form.elements.sort.value === order ? '' : order;
      filtered();
    },
    empty: 'No session.',
    columns: [
      { title: 'Session', cell: (s) => s.id },
      { title: 'State', cell: (s) => badge(s.state, stateTones[s.state]) },
      { title: 'Member', kind: 'number', cell: (s) => s.member || unknownValue },
      { title: 'Address', kind: 'code', cell: (s) => s.address || unknownValue },
      { title: 'Time left', kind: 'left', order: 'left', cell: timeLeft },
      { title: 'Timeout', kind: 'number', cell: (s) => formatDuration(s.timeout_ms) },
      { title: 'Heard', kind: 'number', cell: (s) => (s.heard_ms == null ? unknownValue : `${formatDuration(s.heard_ms)} ago`) },
      { title: 'Ephemerals', kind: 'number', order: 'ephemerals', cell: (s) => formatCount(s.ephemerals) },
      { title: 'Watches', kind: 'number', order: 'watches', cell: (s) => formatCount(s.watches) },
    ],
  });
  const form = $('#filter');
  const pages = new Pages({
    root: $('#sessions'), table, noun: 'session',
    ask: (from, limit, signal) => {
      const wanted = { ...filterParameters(form), sort: form.elements.sort.value, from, limit };
      return past.isPast ? past.request('sessions', wanted, signal) : getJSON('sessions', wanted, signal);
    },
    isFixed: () => past.isPast,
    words: ({ rows }) => (rows > 1 && form.elements.sort.value ? `the ${formatCount(rows)} with ${sortOrders[form.elements.sort.value].first}` : ''),
    loaded: () => total(),
  });
  const past = new Past(() => {
    form.elements.state.disabled = past.isPast; // only running members know it
    if (past.isPast) {
      form.elements.state.value = '';
    }
    filtered();
  });
  let held = null; // sessions in the leader's table; null: not known
  const total = () => {
    if (!pages.seen.known) {
      setText($('#sessions .total'), past.isPast || held === null || hasFilter(form) ? '' : countNoun(held, 'session'));
    } else {
      // A sorted list has one page: if that is full, there may be more.
      const { count, last, full } = pages.seen;
      setText($('#sessions .total'), sessionCount(count, last && !(full && form.elements.sort.value), hasFilter(form), past.isPast ? null : held));
    }
  };
  const filtered = () => {
    const on = hasFilter(form);
    table.sorted(form.elements.sort.value, sortOrders[form.elements.sort.value]?.direction);
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
    showOwner(event.target.elements.path.value.trim());
  });
  return {
    hear: {
      status: (answer) => updateMemberOptions(form.elements.member, memberRows(answer)),
      buckets: (answer) => {
        held = answer.leader === 0 ? null : answer.buckets.reduce((sum, b) => sum + b.sessions, answer.later ?? 0);
        total();
      },
    },
    lost: () => {
      held = null;
    },
    open: () => {
      filtered();
      past.refresh();
    },
    close: () => pages.stop(),
    changed: () => {
      pages.refresh();
      if ($('#sessions').checkVisibility()) {
        past.refresh();
      }
    },
  };
}

// filterParameters returns the parameters for the form.
function filterParameters(form) {
  const text = form.elements.text.value.trim();
  const wanted = { member: form.elements.member.value, state: form.elements.state.value };
  wanted[/^0x/i.test(text) ? 'id' : 'address'] = /^0x/i.test(text) ? text.toLowerCase() : text;
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== ''));
}

const hasFilter = (form) => Object.keys(filterParameters(form)).length > 0;

// sessionCount describes the number of sessions. seen of them match the filter, and maybe more unless exact.
// held is their total, or null if it is unknown.
function sessionCount(seen, exact, filtered, held) {
  const passing = exact ? formatCount(seen) : `at least ${formatCount(seen)}`;
  if (filtered) {
    return `${passing} of ${held === null ? 'all' : formatCount(held)} sessions`;
  }
  return held === null ? `${passing} ${seen === 1 ? 'session' : 'sessions'}` : countNoun(held, 'session');
}

// timeLeft shows the part of its timeout that a session has left.
function timeLeft(s) {
  if (s.left_ms == null) {
    return unknownValue;
  }
  const share = Math.min(1, Math.max(0, s.left_ms / s.timeout_ms));
  return h('span', { class: 'left' }, h('meter', { min: 0, max: 1, low: 0.3, high: 0.31, optimum: 1, value: share, 'aria-hidden': 'true' }), formatDuration(s.left_ms));
}

// updateMemberOptions offers the members in the filter.
function updateMemberOptions(select, all) {
  const ids = all.map((m) => String(m.member));
  if (ids.join() !== [...select.options].slice(1).map((o) => o.value).join()) {
    const chosen = select.value;
    select.replaceChildren(h('option', { value: '' }, 'all'), ...ids.map((id) => h('option', { value: id }, id)));
    select.value = ids.includes(chosen) ? chosen : '';
  }
}

const ownerlessKinds = {
  none: 'There is no such node.', persistent: 'Nobody: the node is persistent.', container: 'Nobody: the node is a container.', ttl: 'Nobody: the node has a time to live.',
};

// inLine returns the sessions of a node's ephemeral children: who holds the lock and who waits, if it is a lock's node.
function inLine(owner) {
  const headings = { holds: 'Held by ', waits: 'then waiting: ', '': 'Its ephemeral children belong to ' };
  let turn = null;
  const parts = owner.children.flatMap((child) => {
    const before = child.turn === turn ? ', ' : (turn === null ? '' : ', ') + headings[child.turn];
    turn = child.turn;
    return [before, h('button', { type: 'button', class: 'name', onclick: () => visitWindow('session', child.id) }, child.id),
      child.address ? ` of ${child.address}` : ''];
  });
  const more = owner.ephemeral_children - owner.children.length;
  return [...parts, more > 0 ? ` and ${more} more` : '', owner.children_cut ? ', maybe after others: the node has too many children to look at all' : '', '.'];
}

// showOwner shows the owner of a node and the time of the reply.
async function showOwner(path) {
  const answer = $('#owner-answer');
  const say = (...parts) => answer.replaceChildren(...parts);
  say('Looking…');
  let owner;
  try {
    owner = await getJSON('owner', { path });
  } catch (err) {
    say(err.message);
    return;
  }
  const then = ` (${asOf(Date.now())})`;
  if (owner.id === '') {
    say(ownerlessKinds[owner.kind] ?? owner.kind, ...owner.children.length ? [' ', ...inLine(owner)] : [], then);
  } else if (owner.ended) {
    say(`Session ${owner.id}, which has ended: the node is about to be removed.`, then);
  } else {
    const s = owner.session;
    say('Session ', h('button', { type: 'button', class: 'name', onclick: () => visitWindow('session', owner.id) }, owner.id),
      s ? `, ${s.state}${s.member ? ` on member ${s.member}` : ''}${s.address ? `, from ${s.address}` : ''}` : '', then);
  }
}
