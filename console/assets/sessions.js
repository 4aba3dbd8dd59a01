// The sessions: the table with its filter, and who owns a node.

import { get } from './ask.js';
import { $, badge, h } from './dom.js';
import { count, none, span } from './format.js';
import { members } from './ensemble.js';
import { Pages } from './pages.js';
import { describe } from './session.js';
import { Table } from './table.js';

const tones = { connected: 'good', disconnected: 'warn', unknown: 'plain' };

// start makes the view, and returns what main.js needs of it.
export function start() {
  const table = new Table({
    label: 'Sessions',
    key: (s) => s.id,
    open: (s) => describe(s.id),
    empty: 'No session.',
    columns: [
      { title: 'Session', cell: (s) => s.id },
      { title: 'State', cell: (s) => badge(s.state, tones[s.state]) },
      { title: 'Member', kind: 'number', cell: (s) => s.member || none },
      { title: 'Address', kind: 'code', cell: (s) => s.address || none },
      { title: 'Time left', kind: 'left', cell: left },
      { title: 'Timeout', kind: 'number', cell: (s) => span(s.timeout_ms) },
      { title: 'Heard', kind: 'number', cell: (s) => (s.heard_ms == null ? none : `${span(s.heard_ms)} ago`) },
      { title: 'Ephemerals', kind: 'number', cell: (s) => count(s.ephemerals) },
      { title: 'Watches', kind: 'number', cell: (s) => count(s.watches) },
    ],
  });
  const form = $('#filter');
  const pages = new Pages({
    root: $('#sessions'), table, noun: 'session',
    ask: (from, limit, signal) => get('sessions', { ...filter(form), from, limit }, signal),
  });
  const filtered = () => {
    const on = Object.keys(filter(form)).length > 0;
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
    hear: { status: (answer) => offer(form.elements.member, members(answer)) },
    open: (id) => {
      filtered();
      if (id) {
        describe(id);
      }
    },
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

// own says who owns a node.
async function own(path) {
  const answer = $('#owner-answer');
  answer.replaceChildren('Looking…');
  try {
    const owner = await get('owner', { path });
    if (owner.id === '') {
      answer.replaceChildren(plain[owner.kind] ?? owner.kind);
    } else if (owner.ended) {
      answer.replaceChildren(`Session ${owner.id}, which has ended: the node is about to be removed.`);
    } else {
      const s = owner.session;
      answer.replaceChildren('Session ', h('button', { type: 'button', class: 'name', onclick: () => describe(owner.id) }, owner.id),
        s ? `, ${s.state}${s.member ? ` on member ${s.member}` : ''}${s.address ? `, from ${s.address}` : ''}` : '');
    }
  } catch (err) {
    answer.replaceChildren(err.message);
  }
}
