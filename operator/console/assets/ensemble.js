// The members of the ensemble: a table, and one member in full.

import { get } from './ask.js';
import { current } from './current.js';
import { $, badge, facts, h, renew } from './dom.js';
import { ago, bytes, count, moment, none, span } from './format.js';
import { way } from './peers.js';
import { Table } from './table.js';
import { register, visit } from './windows.js';

// A clock that is off by more than this is marked, in milliseconds: the stamps of nodes come from it.
const clockLimit = 1000;
// A lag of more log entries than this is marked. A follower of a busy leader lags by some.
const lagLimit = 10_000;

// start makes the table, and returns what main.js needs of a view.
export function start() {
  const table = new Table({
    label: 'Members of the ensemble',
    key: (m) => m.member,
    open: (m) => visit('member', m.member),
    empty: 'No member has answered yet.',
    columns: [
      { title: 'Member', cell: (m) => `member ${m.member}` },
      { title: 'Role', cell: role },
      { title: 'Term', kind: 'number', cell: (m) => count(m.term) },
      { title: 'Lag', kind: 'number', cell: lag },
      { title: 'Sessions', kind: 'number', cell: (m) => count(m.sessions) },
      { title: 'Connections', kind: 'number', cell: (m) => count(m.connections) },
      { title: 'Digest', cell: digest },
      { title: 'Clock', kind: 'number', cell: clock },
      { title: 'Data', kind: 'number', cell: (m) => (m.silent ? none : bytes(m.data_bytes + m.log_bytes)) },
      { title: 'Version', cell: (m) => m.version ?? none },
      { title: 'Up', kind: 'number', cell: (m) => (m.silent ? none : span(Date.now() - Date.parse(m.started))) },
    ],
  });
  $('#ensemble .rows').append(table.element);
  register('member', describe);
  return { hear: { status: (answer) => table.show(members(answer)) } };
}

// members returns the rows of an answer of /v1/status by id. A member that is silent has the reason.
export function members(answer) {
  const silent = answer.silent.map((s) => ({ member: s.member, silent: s }));
  return [...answer.items, ...silent].sort((a, b) => a.member - b.member);
}

function role(m) {
  if (m.silent) {
    return h('span', { title: m.silent.detail }, badge(m.silent.reason, 'bad'));
  }
  const works = state(m);
  return m.exposed ? h('span', {}, works, ' ', badge(m.exposed, 'warn')) : works;
}

// state returns what a member that has answered does, or what keeps it from that.
function state(m) {
  const trouble = m.damaged ? 'damaged' : m.stalled ? 'hangs' : m.joining ? 'joining' : m.drained ? 'drained' : m.no_memory ? 'short of memory' : '';
  if (trouble) {
    return badge(trouble, trouble === 'joining' || trouble === 'drained' ? 'warn' : 'bad');
  }
  return m.role ? badge(m.role, { follower: 'plain', 'read-only': 'warn' }[m.role] ?? 'good') : badge(m.leader ? 'serves nobody' : 'no leader', 'warn');
}

function lag(m) {
  return m.lag > lagLimit ? badge(count(m.lag), 'warn') : count(m.lag);
}

function digest(m) {
  if (m.silent) {
    return none;
  }
  return badge(m.digest, { agrees: 'good', differs: 'bad' }[m.digest]);
}

function clock(m) {
  if (m.silent) {
    return none;
  }
  const text = m.clock_ahead_ms === 0 ? 'same' : `${m.clock_ahead_ms > 0 ? '+' : ''}${span(m.clock_ahead_ms)}`;
  return Math.abs(m.clock_ahead_ms) > clockLimit ? badge(text, 'warn') : text;
}

const clockWords = (ms) => (ms === 0 ? 'as that of the member that serves this page' : `${span(Math.abs(ms))} ${ms > 0 ? 'ahead of' : 'behind'} that of the member that serves this page`);

// describe opens the window of a member.
const describe = (id) => current({
  title: `Member ${id}`,
  read: async (signal) => {
    const member = members(await get('status', {}, signal)).find((m) => String(m.member) === id);
    if (!member) {
      throw new Error(`The ensemble has no member ${id}.`);
    }
    return member;
  },
  fill: (m, body) => (body.firstChild ? renew(body.firstChild, rows(m)) : body.append(facts(rows(m)))),
});

function rows(m) {
  if (m.silent) {
    return [['Silent', m.silent.reason], ['Detail', m.silent.detail]];
  }
  return [
    ['Role', m.role || 'serves nobody'],
    ['Leader', m.leader === 0 ? 'knows none' : `member ${m.leader}, term ${count(m.term)}`],
    ['Damaged', m.damaged || null, 'bad'],
    ['Hangs', m.stalled || null, 'bad'],
    ['Exposed', m.exposed || null, 'warn'],
    ['Joining', m.joining ? 'it catches up, and has no vote yet' : null],
    ['Drained', m.drained ? 'it takes no clients, and is about to stop' : null],
    ['Memory', m.no_memory ? 'it refuses writes that add data' : null],
    ['Digest', `${m.digest}${m.digest_index ? `, compared at log entry ${count(m.digest_index)}` : ''}`],
    ['Lag', m.lag == null ? 'not known: no leader has answered' : `${count(m.lag)} log entries`],
    ['Applied', `log entry ${count(m.applied)}, zxid ${m.zxid}`],
    ['Committed', `log entry ${count(m.committed)}`],
    ['Sessions', count(m.sessions)],
    ['Connections', count(m.connections)],
    ['Watches', count(m.watches)],
    ['Snapshot', m.snapshot ? `at log entry ${count(m.snapshot)}${m.snapshot_at ? `, ${ago(m.snapshot_at)}` : ''}` : 'none yet'],
    ['Data', `${bytes(m.data_bytes)}, and ${bytes(m.log_bytes)} of log`],
    ['Clock', clockWords(m.clock_ahead_ms)],
    ['Clients', m.clients],
    ['Console', way(m)],
    ['Members', `${m.quorum}, log ${m.election}`],
    ['Version', m.version],
    ['Started', moment(m.started)],
  ];
}
