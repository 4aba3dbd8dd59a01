// The changes of the leader.

import { $, write } from './dom.js';
import { count, moment, none, span } from './format.js';
import { Table } from './table.js';

// few is how many changes are shown.
const few = 5;

// start makes the table, and returns what main.js needs of a view.
export function start() {
  let changes = []; // newest first
  let status = null; // the last answer of /v1/status
  const table = new Table({
    label: 'Changes of the leader',
    key: (c) => c.term,
    empty: 'The member has heard of no change of the leader since it started.',
    columns: [
      { title: 'Leader', cell: (c) => `member ${c.leader}` },
      { title: 'Since', cell: (c) => moment(c.at) },
      { title: 'Term', kind: 'number', cell: (c) => count(c.term) },
      { title: 'Led for', kind: 'number', cell: (c) => led(c, changes) },
    ],
  });
  $('#leaders .rows').append(table.element);
  const draw = () => {
    table.show(changes.slice(0, few));
    write($('#leaders-text'), now(changes, status));
  };
  draw();
  return {
    hear: {
      leader: (change) => {
        changes = [change, ...changes.filter((c) => c.term !== change.term)].sort((a, b) => b.term - a.term);
        draw();
      },
      status: (answer) => {
        status = answer;
        draw();
      },
    },
  };
}

// led returns for how long a leader has led, until the next one began.
function led(change, changes) {
  const next = changes[changes.indexOf(change) - 1];
  return span((next ? Date.parse(next.at) : Date.now()) - Date.parse(change.at)) || none;
}

// now says who leads.
function now(changes, status) {
  if (!status) {
    return '';
  }
  const leader = status.items.find((m) => m.role === 'leader');
  if (!leader) {
    return status.items.some((m) => m.role === 'standalone') ? 'The only member leads.' : 'No member that answers leads.';
  }
  const change = changes.find((c) => c.term === leader.term);
  return `Member ${leader.member} ${change ? `has led since ${moment(change.at)}` : 'leads'}, in term ${count(leader.term)}.`;
}
