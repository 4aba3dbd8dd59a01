// What removed a node.

import { getJSON } from './requests.js';
import { openRefreshingDialog } from './current.js';
import { badge, factList, h, updateFacts } from './dom.js';
import { endFacts as endRows } from './end.js';
import { formatTime, timeSince, unknownValue, visibleText } from './format.js';
import { Pages } from './pages.js';
import { Table } from './table.js';
import { registerWindow, visitWindow } from './windows.js';

const causeTones = { 'delete': 'plain', 'session ended': 'warn', 'ttl': 'plain', 'container': 'plain' };

// removalPages returns the list of removals of the node at path().
export function removalPages(path) {
  return new Pages({
    root: document.getElementById('removals-list'),
    noun: 'removal',
    table: new Table({
      label: 'Removals of the node',
      key: (r) => r.zxid,
      open: (r) => visitWindow('removal', r.zxid),
      empty: 'No removal of this node is remembered. A member remembers the last 10,000 since its start.',
      columns: [
        { title: 'Node', cell: (r) => visibleText(r.path) },
        { title: 'Removed', cell: (r) => formatTime(r.removed) },
        { title: 'Cause', cell: (r) => badge(r.cause, causeTones[r.cause]) },
        { title: 'Session', kind: 'code', cell: (r) => r.session || unknownValue },
        { title: 'Address', kind: 'code', cell: (r) => r.address || r.end?.address || unknownValue },
        { title: 'Member', kind: 'number', cell: (r) => r.member || r.end?.member || unknownValue },
      ],
    }),
    ask: (from, limit, signal) => getJSON('removals', { path: path(), from, limit }, signal),
  });
}

const causeSentences = {
  'delete': 'a client deleted it.', 'session ended': 'its session ended.', 'ttl': 'its time to live was over.', 'container': 'the last child of the container was gone.',
};

const removalFacts = (r) => [
  ['Removed', `${formatTime(r.removed)} (${timeSince(r.removed)})`],
  ['Cause', `${r.cause}: ${causeSentences[r.cause] ?? ''}`],
  ['Session', r.session || null, 'code'],
  ['Address', r.address || null, 'code'],
  ['Member', r.member ? `member ${r.member}` : null],
  ['Zxid', r.zxid, 'code'],
];

// The window shows a removal of the node at a path, with the end of the session that caused it. It asks once: only ages change.
registerWindow('removal', (zxid, path) => {
  let removal;
  return openRefreshingDialog({
    title: visibleText(path),
    read: async (signal) => {
      removal ??= (await getJSON('removals', { path }, signal)).items.find((r) => r.zxid === zxid);
      if (!removal) {
        throw new Error('This removal is not remembered.');
      }
      return removal;
    },
    fill: (r, body) => {
      if (body.childElementCount === 0) {
        body.append(factList([]), ...(r.end ? [h('h3', {}, 'How the session ended'), factList([])] : []));
      }
      const [own, end] = body.querySelectorAll('dl');
      updateFacts(own, removalFacts(r));
      if (end) {
        updateFacts(end, endRows(r.end));
      }
    },
  });
});
