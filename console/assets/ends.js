// How sessions ended: the last few of them, and the list.

import { get } from './ask.js';
import { show } from './dialog.js';
import { $, badge, facts } from './dom.js';
import { ago, count, moment, none, shown, span } from './format.js';
import { Pages } from './pages.js';
import { removed } from './removals.js';
import { Table } from './table.js';

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
  return new Table({ label, key: (e) => e.number, open: describe, empty: 'No session has ended yet.', columns });
}

// describe shows an end in full.
export function describe(e) {
  show({ title: `Session ${e.id}`, build: () => facts(rows(e)) });
}

// rows are the facts of an end.
export const rows = (e) => [
  ['Ended', `${moment(e.ended)} (${ago(e.ended)})`],
  ['Reason', `${e.reason}: ${sentence(e)}`],
  ['By', shown(e.by) || null],
  ['Address', e.address || none, 'code'],
  ['Member', e.member ? `member ${e.member}` : none],
  ['Leader', `member ${e.leader}, term ${count(e.term)}`],
  ['Zxid', e.zxid, 'code'],
  ['Not heard for', span(e.silent_ms)],
  ['Timeout', span(e.timeout_ms)],
  ['Ephemerals', `${count(e.ephemerals)} removed with it`],
];

const sentence = (e) => ({
  closed: 'its client closed it.',
  expired: `the leader had not heard from it for ${span(e.silent_ms)}, and its timeout is ${span(e.timeout_ms)}.`,
  killed: 'an operator ended it.',
}[e.reason] ?? '');

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
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    list();
  });
  form.addEventListener('reset', () => setTimeout(list));

  let timer = 0;
  const look = async () => {
    timer = 0;
    if (!$('#overview').hidden) {
      latest.show((await get('ends', { limit: few })).items);
    }
    ends.refresh();
    removals.refresh();
  };
  const soon = () => {
    timer ||= setTimeout(() => look().catch(() => {}), calm); // the stream tells of a member that is lost
  };
  return {
    hear: { session: (e) => e.kind === 'ended' && soon(), omitted: soon },
    live: soon,
    overview: soon,
    open: (about) => {
      if (about) {
        form.elements.about.value = about;
      }
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
