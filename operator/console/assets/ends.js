// How sessions ended: the last few of them, and the list.

import { page, rename } from './address.js';
import { get } from './ask.js';
import { $, badge } from './dom.js';
import { count, moment, none, shown, span } from './format.js';
import { Pages } from './pages.js';
import { removed } from './removals.js';
import { Table } from './table.js';
import { visit } from './windows.js';

// few is how many ends the overview shows.
const few = 5;
// calm is the shortest time between two looks at the ends, in milliseconds, if many sessions end.
const calm = 1000;

const tones = { closed: 'plain', expired: 'warn', killed: 'bad' };

const main = [
  { title: 'Session', cell: (e) => e.id },
  { title: 'Ended', cell: (e) => moment(e.ended) },
  { title: 'Reason', cell: (e) => badge(e.reason, tones[e.reason]) },
  { title: 'Address', kind: 'code', cell: (e) => e.address || none },
  { title: 'Member', kind: 'number', cell: (e) => e.member || none },
  { title: 'Silent for', kind: 'number', cell: (e) => span(e.silent_ms) },
];
const columns = [
  ...main,
  { title: 'Timeout', kind: 'number', cell: (e) => span(e.timeout_ms) },
  { title: 'Ephemerals', kind: 'number', cell: (e) => count(e.ephemerals) },
  { title: 'By', kind: 'wide', cell: (e) => shown(e.by) || none },
];

// newTable returns a table of ends.
function newTable(label, columns) {
  return new Table({ label, key: (e) => e.number, open: (e) => visit('end', e.id), empty: 'No session has ended yet.', columns });
}

// start makes both tables, and returns what main.js needs of a view.
export function start() {
  const latest = newTable('The last ends of sessions', main);
  $('#latest .rows').append(latest.element);
  const form = $('#why');
  const text = () => form.elements.about.value.trim();
  const ends = new Pages({
    root: $('#ends-list'),
    table: newTable('Ends of sessions', columns),
    noun: 'end',
    ask: (from, limit, signal) => get('ends', { ...about(text()), from, limit }, signal),
  });
  const removals = removed(text);
  const list = () => {
    const node = text().startsWith('/');
    $('#ends-list').hidden = node;
    $('#removals-list').hidden = !node;
    (node ? ends : removals).stop();
    (node ? removals : ends).first();
  };
  // What is looked up is part of the address, so that it can be sent, and windows over the list know it.
  const ask = () => {
    rename(page('ends', text()));
    list();
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    ask();
  });
  form.addEventListener('reset', () => setTimeout(ask));

  let timer = 0;
  const look = async () => {
    timer = 0;
    ends.refresh();
    removals.refresh();
    if (!$('#overview').hidden) {
      latest.show((await get('ends', { limit: few })).items);
    }
  };
  // If the member does not answer, it is asked again, as long as the stream does not say that it is lost.
  const soon = () => {
    timer ||= setTimeout(() => look().catch(() => document.body.hasAttribute('data-stale') || soon()), calm);
  };
  return {
    hear: { session: (e) => e.kind === 'ended' && soon(), omitted: soon },
    live: soon,
    overview: soon,
    open: (about) => {
      form.elements.about.value = about;
      list();
    },
    close: () => {
      ends.stop();
      removals.stop();
    },
  };
}

// about returns the parameter that asks for the ends of a session or of an address.
function about(text) {
  return /^0x/i.test(text) ? { session: text.toLowerCase() } : { address: text };
}
