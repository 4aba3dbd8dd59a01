// What removed a node.

import { get } from './ask.js';
import { show } from './dialog.js';
import { badge, facts, h } from './dom.js';
import { rows as endRows } from './ends.js';
import { ago, moment, none, shown } from './format.js';
import { Pages } from './pages.js';
import { Table } from './table.js';

const tones = { 'delete': 'plain', 'session ended': 'warn', 'ttl': 'plain', 'container': 'plain' };

// removed returns the list of what removed the node at path().
export function removed(path) {
  return new Pages({
    root: document.getElementById('removals-list'),
    noun: 'removal',
    table: new Table({
      label: 'Removals of the node',
      key: (r) => r.zxid,
      open: describe,
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

// describe shows a removal in full, with the end of the session that caused it.
function describe(r) {
  show({
    title: shown(r.path),
    build: () => [
      facts([
        ['Removed', `${moment(r.removed)} (${ago(r.removed)})`],
        ['Cause', `${r.cause}: ${sentences[r.cause] ?? ''}`],
        ['Session', r.session || null, 'code'],
        ['Address', r.address || null, 'code'],
        ['Member', r.member ? `member ${r.member}` : null],
        ['Zxid', r.zxid, 'code'],
      ]),
      ...(r.end ? [h('h3', {}, 'How the session ended'), facts(endRows(r.end))] : []),
    ],
  });
}
