// What removed a node.

import { get } from './ask.js';
import { current } from './current.js';
import { badge, facts, h, renew } from './dom.js';
import { rows as endRows } from './end.js';
import { ago, moment, none, shown } from './format.js';
import { Pages } from './pages.js';
import { Table } from './table.js';
import { register, visit } from './windows.js';

const tones = { 'delete': 'plain', 'session ended': 'warn', 'ttl': 'plain', 'container': 'plain' };

// removed returns the list of what removed the node at path().
export function removed(path) {
  return new Pages({
    root: document.getElementById('removals-list'),
    noun: 'removal',
    table: new Table({
      label: 'Removals of the node',
      key: (r) => r.zxid,
      open: (r) => visit('removal', r.zxid),
      empty: 'No removal of this node is remembered. A member remembers the last 10,000 since its start.',
      columns: [
        { title: 'Node', cell: (r) => shown(r.path) },
        { title: 'Removed', cell: (r) => moment(r.removed) },
        { title: 'Cause', cell: (r) => badge(r.cause, tones[r.cause]) },
        { title: 'Session', kind: 'code', cell: (r) => r.session || none },
        { title: 'Address', kind: 'code', cell: (r) => r.address || r.end?.address || none },
        { title: 'Member', kind: 'number', cell: (r) => r.member || r.end?.member || none },
      ],
    }),
    ask: (from, limit, signal) => get('removals', { path: path(), from, limit }, signal),
  });
}

const sentences = {
  'delete': 'a client deleted it.', 'session ended': 'its session ended.', 'ttl': 'its time to live was over.', 'container': 'the last child of the container was gone.',
};

const rows = (r) => [
  ['Removed', `${moment(r.removed)} (${ago(r.removed)})`],
  ['Cause', `${r.cause}: ${sentences[r.cause] ?? ''}`],
  ['Session', r.session || null, 'code'],
  ['Address', r.address || null, 'code'],
  ['Member', r.member ? `member ${r.member}` : null],
  ['Zxid', r.zxid, 'code'],
];

// The window shows a removal of the node at a path, with the end of the session that caused it. It asks once: only ages change.
register('removal', (zxid, path) => {
  let removal;
  return current({
    title: shown(path),
    read: async (signal) => {
      removal ??= (await get('removals', { path }, signal)).items.find((r) => r.zxid === zxid);
      if (!removal) {
        throw new Error('This removal is not remembered.');
      }
      return removal;
    },
    fill: (r, body) => {
      if (body.childElementCount === 0) {
        body.append(facts([]), ...(r.end ? [h('h3', {}, 'How the session ended'), facts([])] : []));
      }
      const [own, end] = body.querySelectorAll('dl');
      renew(own, rows(r));
      if (end) {
        renew(end, endRows(r.end));
      }
    },
  });
});
