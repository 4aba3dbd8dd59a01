// One session in full, and its end by an operator.

import { get } from './ask.js';
import { confirm, show } from './dialog.js';
import { $, facts, h, say } from './dom.js';
import { describe as describeEnd } from './ends.js';
import { ago, count, micros, moment, none, plural, shown, span } from './format.js';
import { act, signIn } from './signin.js';

// few is how many paths a session shows of its ephemeral nodes and of its watches.
const few = 20;

// describe shows a session. If it has ended, the end is shown.
export async function describe(id) {
  let session;
  try {
    session = await get(`sessions/${encodeURIComponent(id)}`);
  } catch (err) {
    const end = err.status === 404 && (await get('ends', { session: id, limit: 1 }).catch(() => null))?.items[0];
    if (end) {
      describeEnd(end);
    } else {
      show({ title: `Session ${id}`, build: () => h('p', {}, err.message) });
    }
    return;
  }
  const dialog = show({
    title: `Session ${session.id}`,
    build: (close) => [
      facts(rows(session)),
      h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'danger', onclick: () => kill(session, close) }, 'Kill…')),
      h('div', { class: 'paths' }), // comes last, because it comes late: no button moves
    ],
  });
  list(dialog, session.id).catch((err) => $('.paths', dialog).replaceChildren(err.message));
}

function rows(s) {
  const c = s.connection;
  return [
    ['State', s.state],
    ['Member', s.member ? `member ${s.member}` : 'attached to none'],
    ['Address', s.address || none, 'code'],
    ['Timeout', span(s.timeout_ms)],
    ['Time left', s.left_ms == null ? 'not known: the leader did not answer' : span(s.left_ms)],
    ['Heard', s.heard_ms == null ? null : `${span(s.heard_ms)} ago`],
    ['Created', `${moment(s.created)} (${ago(s.created)})`],
    ['Connected', c ? `${moment(c.established)} (${ago(c.established)})` : null],
    ['Requests', c ? `${count(c.received)} received, ${count(c.sent)} replies and events sent, ${count(c.queued)} waiting` : null],
    ['Last request', c && c.last_op ? `${c.last_op}, zxid ${c.last_zxid}` : null],
    ['Latency', c ? `last ${micros(c.last_us)}, average ${micros(c.avg_us)}, at most ${micros(c.max_us)}` : null],
    ['Ephemerals', count(s.ephemerals)],
    ['Watches', count(s.watches)],
    ['Not known', s.silent?.length > 0 ? s.silent.map((one) => `member ${one.member}: ${one.reason}`).join(', ') : null],
  ];
}

// list adds the paths of the session's ephemeral nodes and of its watches.
async function list(dialog, id) {
  const at = `sessions/${encodeURIComponent(id)}`;
  const [ephemerals, watches] = await Promise.all([get(`${at}/ephemerals`, { limit: few }), get(`${at}/watches`, { limit: few })]);
  const part = (title, page) => page.items.length > 0 && [
    h('h3', {}, title, page.next !== '' && ` (the first ${few})`),
    h('ul', {}, page.items.map((one) => h('li', {}, h('a', { class: 'code', href: `#/nodes/${encodeURIComponent(one.path)}`, onclick: () => dialog.close() }, shown(one.path))))),
  ];
  $('.paths', dialog).replaceChildren(...[part('Ephemeral nodes', ephemerals), part('Watches', watches)].flat().filter(Boolean));
}

// kill ends the session, if the user is sure. done is called when it has ended.
async function kill(session, done) {
  if (!await signIn('To kill a session, sign in.')) {
    return;
  }
  const killed = await confirm({
    title: `Kill session ${session.id}?`,
    text: [
      `Its client${session.address ? ` at ${session.address}` : ''} is told that the session has expired.`,
      session.ephemerals > 0 ? `${plural(session.ephemerals, 'ephemeral node')} will be removed.` : 'It has no ephemeral nodes.',
    ],
    verb: 'Kill',
    act: () => act(`sessions/${encodeURIComponent(session.id)}/kill`, {}),
  });
  if (killed) {
    done();
    say(`Session ${session.id} was killed.`);
    document.dispatchEvent(new Event('acted'));
  }
}
