// The changes of the leader.

import { $, setText } from './dom.js';
import { formatDuration, formatTerm, formatTime, unknownValue } from './format.js';
import { Table } from './table.js';

const maxChanges = 5;

// start builds the table, and returns the view for main.js.
export function start() {
  let changes = []; // newest first
  let status = null; // the last answer of /v1/status
  const table = new Table({
    label: 'Changes of the leader',
    key: (c) => c.term,
    empty: 'The member has heard of no change of the leader since it started.',
    columns: [
      { title: 'Leader', cell: (c) => `member ${c.leader}` },
      { title: 'Since', cell: (c) => formatTime(c.at) },
      { title: 'Term', kind: 'number', cell: (c) => formatTerm(c.term) },
      { title: 'Led for', kind: 'number', cell: (c) => ledFor(c, changes) },
      { title: 'Cause', cell: causeText },
    ],
  });
  $('#leaders .rows').append(table.element);
  const draw = () => {
    if (!status && changes.length === 0) {
      table.clear(); // the stream begins with the changes, so before a status it is not known whether there was one
    } else {
      table.show(changes.slice(0, maxChanges));
    }
    setText($('#leaders-text'), leaderSentence(changes, status));
  };
  draw();
  return {
    hear: {
      leader: (change) => {
        if (change.cause === 'resumed' && changes.some((c) => c.term === change.term)) {
          return; // the leader is the same, and the first cause of its term stays
        }
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

// causeText returns what ended the leader before a change.
function causeText(change) {
  return {
    'handed over': `handed over by member ${change.former}`,
    died: `member ${change.former} died`,
    silent: `no heartbeat from member ${change.former} for ${formatDuration(change.silent_ms)}`,
    'elected again': `member ${change.former} stepped down and was elected again`,
    resumed: `member ${change.former} resumed in the same term`,
    started: 'no leader known since its start',
  }[change.cause] ?? unknownValue;
}

// ledFor returns the time from a leader's change to the next one.
function ledFor(change, changes) {
  const next = changes[changes.indexOf(change) - 1];
  return formatDuration((next ? Date.parse(next.at) : Date.now()) - Date.parse(change.at)) || unknownValue;
}

function leaderSentence(changes, status) {
  if (!status) {
    return '';
  }
  const leader = status.items.find((m) => m.role === 'leader');
  if (!leader) {
    return status.items.some((m) => m.role === 'standalone') ? 'The only member leads.' : 'No member that answers leads.';
  }
  const change = changes.find((c) => c.term === leader.term);
  return `Member ${leader.member} ${change ? `has led since ${formatTime(change.at)}` : 'leads'}, in term ${formatTerm(leader.term)}.`;
}
