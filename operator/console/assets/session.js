// One session in full, and its end by an operator.

import { pageAddress } from './address.js';
import { getJSON } from './requests.js';
import { openRefreshingDialog } from './current.js';
import { confirmAction } from './dialog.js';
import { $, announce, factList, h, setContent, updateFacts } from './dom.js';
import { endFacts as endRows, latestEnd } from './end.js';
import { countNoun, formatCount, formatDuration, formatMicros, formatTime, timeSince, unknownValue, visibleText } from './format.js';
import { changeAsAdministrator, signIn } from './signin.js';
import { registerWindow } from './windows.js';

// maxPaths limits the paths of ephemeral nodes and of watches that a session shows.
const maxPaths = 20;
// readsPerPaths is the number of reads of a session for each read of its paths.
const readsPerPaths = 3;

export const start = () => registerWindow('session', openSession);

// openSession opens the window of a session, which shows the end if the session has ended.
function openSession(id) {
  let end = null; // how it ended, if it has
  let looks = 0;
  let paths = h('div');
  return openRefreshingDialog({
    title: `Session ${id}`,
    read: async (signal) => {
      if (end) {
        return { end };
      }
      try {
        const session = await getJSON(sessionPath(id), {}, signal);
        if (looks++ % readsPerPaths === 0) {
          paths = h('div', {}, await pathLists(id, signal));
        }
        return { session, paths };
      } catch (err) {
        end = err.status === 404 ? await latestEnd(id, signal) : null;
        if (!end) {
          throw err;
        }
        return { end };
      }
    },
    fill: (value, body) => {
      if (body.childElementCount === 0) {
        body.append(factList([]),
          h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'danger', onclick: () => killSession(id) }, 'Kill…')),
          h('div', { class: 'paths' })); // comes last, because it comes late: no button moves
      }
      const { end, session, paths } = value;
      $('.buttons', body).hidden = !!end;
      updateFacts($('dl', body), [...(end ? [['State', 'ended'], ...endRows(end)] : sessionFacts(session)), slowFact(id)]);
      setContent($('.paths', body), end ? h('div') : paths);
    },
  });
}

const sessionPath = (id) => `sessions/${encodeURIComponent(id)}`;

// pathLists resolves to the lists of a session's ephemeral nodes and watches, or to the error.
async function pathLists(id, signal) {
  try {
    const [ephemerals, watches] = await Promise.all(['ephemerals', 'watches'].map((list) => getJSON(`${sessionPath(id)}/${list}`, { limit: maxPaths }, signal)));
    return [...pathSection('Ephemeral nodes', ephemerals), ...pathSection('Watches', watches)];
  } catch (err) {
    if (err.name === 'AbortError') {
      throw err;
    }
    return [h('p', {}, err.message)];
  }
}

const pathSection = (title, list) => (list.items.length === 0 ? [] : [
  h('h3', {}, title, list.next !== '' && ` (the first ${maxPaths})`),
  h('ul', {}, list.items.map((one) => h('li', {}, h('a', { class: 'code', href: pageAddress('nodes', one.path) }, visibleText(one.path))))),
]);

function sessionFacts(s) {
  const c = s.connection;
  return [
    ['State', s.state],
    ['Member', s.member ? `member ${s.member}` : 'attached to none'],
    ['Address', s.address || unknownValue, 'code'],
    ['Timeout', formatDuration(s.timeout_ms)],
    ['Time left', s.left_ms == null ? 'not known: the leader did not answer' : formatDuration(s.left_ms)],
    ['Heard', s.heard_ms == null ? null : `${formatDuration(s.heard_ms)} ago`],
    ['Created', `${formatTime(s.created)} (${timeSince(s.created)})`],
    ['Connected', c ? `${formatTime(c.established)} (${timeSince(c.established)})` : null],
    ['Requests', c ? `${formatCount(c.received)} received, ${formatCount(c.sent)} replies and events sent, ${formatCount(c.queued)} waiting` : null],
    ['Last request', c && c.last_op ? `${c.last_op}, zxid ${c.last_zxid}` : null],
    ['Latency', c ? `last ${formatMicros(c.last_us)}, average ${formatMicros(c.avg_us)}, at most ${formatMicros(c.max_us)}` : null],
    ['Ephemerals', formatCount(s.ephemerals)],
    ['Watches', formatCount(s.watches)],
    ['Not known', s.silent?.length > 0 ? s.silent.map((one) => `member ${one.member}: ${one.reason}`).join(', ') : null],
  ];
}

const slowFact = (id) => ['Slow requests', h('a', { href: pageAddress('slow', id) }, 'those of the last hour')];

// killSession kills the session if the user confirms it. The session's window stays, and shows the end.
async function killSession(id) {
  if (!await signIn('To kill a session, sign in.')) {
    return;
  }
  const session = await getJSON(sessionPath(id)).catch(() => null); // the kill says what is wrong
  const killed = await confirmAction({
    title: `Kill session ${id}?`,
    text: [
      `Its client${session?.address ? ` at ${session.address}` : ''} is told that the session has expired.`,
      !session ? 'Its ephemeral nodes will be removed.' : session.ephemerals > 0 ? `${countNoun(session.ephemerals, 'ephemeral node')} will be removed.` : 'It has no ephemeral nodes.',
    ],
    verb: 'Kill',
    act: () => changeAsAdministrator(`${sessionPath(id)}/kill`, {}),
  });
  if (killed) {
    announce(`Session ${id} was killed.`);
    document.dispatchEvent(new Event('acted'));
  }
}
