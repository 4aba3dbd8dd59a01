// The members of the ensemble: a table, and one member in full.

import { getJSON } from './requests.js';
import { openRefreshingDialog } from './current.js';
import { $, badge, factList, h, updateFacts } from './dom.js';
import { formatBytes, formatCount, formatDuration, formatTerm, formatTime, timeSince, unknownValue } from './format.js';
import { consoleLink } from './peers.js';
import { Table } from './table.js';
import { registerWindow, visitWindow } from './windows.js';

// clockLimit marks clocks that are off by more, in milliseconds: they stamp nodes.
const clockLimit = 1000;
// lagLimit marks lags of more log entries. A follower of a busy leader lags by some.
const lagLimit = 10_000;

// start builds the table, and returns the view for main.js.
export function start() {
  const table = new Table({
    label: 'Members of the ensemble',
    key: (m) => m.member,
    open: (m) => visitWindow('member', m.member),
    empty: 'No member has answered yet.',
    columns: [
      { title: 'Member', cell: (m) => `member ${m.member}` },
      { title: 'Role', cell: roleCell },
      { title: 'Term', kind: 'number', cell: (m) => formatTerm(m.term) },
      { title: 'Lag', kind: 'number', cell: lagCell },
      { title: 'Sessions', kind: 'number', cell: (m) => formatCount(m.sessions) },
      { title: 'Connections', kind: 'number', cell: (m) => formatCount(m.connections) },
      { title: 'Digest', cell: digestCell },
      { title: 'Clock', kind: 'number', cell: clockCell },
      { title: 'Data', kind: 'number', cell: (m) => (m.silent ? unknownValue : formatBytes(m.data_bytes + m.log_bytes)) },
      { title: 'Version', cell: (m) => m.version ?? unknownValue },
      { title: 'Up', kind: 'number', cell: (m) => (m.silent ? unknownValue : formatDuration(Date.now() - Date.parse(m.started))) },
    ],
  });
  $('#ensemble .rows').append(table.element);
  registerWindow('member', openMember);
  return { hear: { status: (answer) => table.show(memberRows(answer)) } };
}

// memberRows returns the rows of a reply of /v1/status by id. A silent member has the reason.
export function memberRows(answer) {
  const silent = answer.silent.map((s) => ({ member: s.member, silent: s }));
  return [...answer.items, ...silent].sort((a, b) => a.member - b.member);
}

function roleCell(m) {
  if (m.silent) {
    return h('span', { title: m.silent.detail }, badge(m.silent.reason, 'bad'));
  }
  const works = stateBadge(m);
  return m.exposed ? h('span', {}, works, ' ', badge(m.exposed, 'warn')) : works;
}

// stateBadge returns the role of a member that replied, or its problem.
function stateBadge(m) {
  const trouble = m.damaged ? 'damaged' : m.stalled ? 'hangs' : m.joining ? 'joining' : m.drained ? 'drained' : m.no_memory ? 'short of memory' : isShortOfSpace(m) ? 'disk nearly full' : '';
  if (trouble) {
    return badge(trouble, trouble === 'joining' || trouble === 'drained' ? 'warn' : 'bad');
  }
  return m.role ? badge(m.role, { follower: 'plain', 'read-only': 'warn' }[m.role] ?? 'good') : badge(m.leader ? 'serves nobody' : m.term ? 'no leader' : 'starting', 'warn');
}

function lagCell(m) {
  return m.lag > lagLimit ? badge(formatCount(m.lag), 'warn') : formatCount(m.lag);
}

function digestCell(m) {
  if (m.silent) {
    return unknownValue;
  }
  return badge(m.digest, { agrees: 'good', differs: 'bad' }[m.digest]);
}

function clockCell(m) {
  if (m.silent) {
    return unknownValue;
  }
  const text = m.clock_ahead_ms === 0 ? 'same' : `${m.clock_ahead_ms > 0 ? '+' : ''}${formatDuration(m.clock_ahead_ms)}`;
  return Math.abs(m.clock_ahead_ms) > clockLimit ? badge(text, 'warn') : text;
}

const clockText = (ms) => (ms === 0 ? 'as that of the member that serves this page' : `${formatDuration(Math.abs(ms))} ${ms > 0 ? 'ahead of' : 'behind'} that of the member that serves this page`);

// freeText returns the space that is left for files, or for the data and the log if these are on different disks.
function freeText(m) {
  const [data, log] = [m.data_free, m.log_free].map(formatBytes);
  if (m.data_free === 0 && m.log_free === 0) {
    return 'not known';
  }
  return data === log ? data : `${data} for data, ${log} for the log`;
}

// lowSpace is the free space, in bytes, below which a disk is nearly full, as in rollcall status. Space of 0 is unknown.
const lowSpace = 1 << 30;
const isShortOfSpace = (m) => [m.data_free, m.log_free].some((free) => free > 0 && free < lowSpace);

// fullShare marks a limit of which as much is used. The leader warns of its quota from there on, too.
const fullShare = 0.8;

const shareText = (used, limit) => (limit > 0 ? `${formatBytes(used)} of ${formatBytes(limit)}` : 'no limit');
const shareTone = (used, limit) => (limit > 0 && used >= limit * fullShare ? 'warn' : '');

const openMember = (id) => openRefreshingDialog({
  title: `Member ${id}`,
  read: async (signal) => {
    const member = memberRows(await getJSON('status', {}, signal)).find((m) => String(m.member) === id);
    if (!member) {
      throw new Error(`The ensemble has no member ${id}.`);
    }
    return member;
  },
  fill: (m, body) => (body.firstChild ? updateFacts(body.firstChild, memberFacts(m)) : body.append(factList(memberFacts(m)))),
});

function memberFacts(m) {
  if (m.silent) {
    return [['Silent', m.silent.reason], ['Detail', m.silent.detail]];
  }
  return [
    ['Role', m.role || 'serves nobody'],
    ['Leader', m.leader === 0 ? 'knows none' : `member ${m.leader}, term ${formatTerm(m.term)}`],
    ['Damaged', m.damaged || null, 'bad'],
    ['Hangs', m.stalled || null, 'bad'],
    ['Exposed', m.exposed || null, 'warn'],
    ['Does not serve', m.not_serving || null, 'warn'],
    ['Joining', m.joining && m.not_serving === '' ? 'it has no vote yet' : null],
    ['Drained', m.drained && m.not_serving === '' ? 'it takes no clients, and is about to stop' : null],
    ['Digest', `${m.digest}${m.digest_index ? `, compared at log entry ${formatCount(m.digest_index)}` : ''}`],
    ['Lag', m.lag == null ? 'not known: no leader has answered' : `${formatCount(m.lag)} log entries`],
    ['Applied', `log entry ${formatCount(m.applied)}, zxid ${m.zxid}`],
    ['Committed', `log entry ${formatCount(m.committed)}`],
    ['Sessions', formatCount(m.sessions)],
    ['Connections', formatCount(m.connections)],
    ['Watches', formatCount(m.watches)],
    ['Snapshot', m.snapshot ? `at log entry ${formatCount(m.snapshot)}${m.snapshot_at ? `, ${timeSince(m.snapshot_at)}` : ''}` : 'none yet'],
    ['Data', `${formatBytes(m.data_bytes)}, and ${formatBytes(m.log_bytes)} of log`],
    ['Free', freeText(m), isShortOfSpace(m) ? 'bad' : ''],
    ['Data quota', shareText(m.data_used, m.data_quota), shareTone(m.data_used, m.data_quota)],
    ['Memory', shareText(m.memory_used, m.memory_limit) + (m.no_memory ? ': it refuses writes that add data' : ''),
      m.no_memory ? 'bad' : shareTone(m.memory_used, m.memory_limit)],
    ['Clock', clockText(m.clock_ahead_ms)],
    ['Clients', m.clients],
    ['Console', consoleLink(m)],
    ['Members', `${m.quorum}, log ${m.election}`],
    ['Version', m.version],
    ['Started', formatTime(m.started)],
  ];
}
