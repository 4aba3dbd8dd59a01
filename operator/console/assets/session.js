// One session in full, and its end by an operator.

import { page } from './address.js';
import { get } from './ask.js';
import { current } from './current.js';
import { confirm } from './dialog.js';
import { $, facts, h, put, renew, say } from './dom.js';
import { endOf, rows as endRows } from './end.js';
import { ago, count, micros, moment, none, plural, shown, span } from './format.js';
import { act, signIn } from './signin.js';
import { register } from './windows.js';

// few is how many paths a session shows of its ephemeral nodes and of its watches.
const few = 20;
// pathsEvery is how many looks at a session there are to one at its paths.
const pathsEvery = 3;

// start lets windows of sessions be opened.
export const start = () => register('session', open);

// open opens the window of a session. If the session has ended, the window says how.
function open(id) {
  let end = null; // how it ended, if it has
  let looks = 0;
  let paths = h('div');
  return current({
    title: `Session ${id}`,
    read: async (signal) => {
      if (end) {
        return { end };
      }
      try {
        const session = await get(at(id), {}, signal);
        if (looks++ % pathsEvery === 0) {
          paths = h('div', {}, await pathsOf(id, signal));
        }
        return { session, paths };
      } catch (err) {
        end = err.status === 404 ? await endOf(id, signal) : null;
        if (!end) {
          throw err;
        }
        return { end };
      }
    },
    fill: (value, body, close) => {
      if (body.childElementCount === 0) {
        body.append(facts([]),
          h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'danger', onclick: () => kill(id, close) }, 'Kill…')),
          h('div', { class: 'paths' })); // comes last, because it comes late: no button moves
      }
      const { end, session, paths } = value;
      $('.buttons', body).hidden = !!end;
      renew($('dl', body), end ? [['State', 'ended'], ...endRows(end)] : rows(session));
      put($('.paths', body), end ? h('div') : paths);
    },
  });
}

const at = (id) => `sessions/${encodeURIComponent(id)}`;

// pathsOf resolves to the lists of a session's ephemeral nodes and of its watches, or to why there are none.
async function pathsOf(id, signal) {
  try {
    const [ephemerals, watches] = await Promise.all(['ephemerals', 'watches'].map((list) => get(`${at(id)}/${list}`, { limit: few }, signal)));
    return [...part('Ephemeral nodes', ephemerals), ...part('Watches', watches)];
  } catch (err) {
    if (err.name === 'AbortError') {
      throw err;
    }
    return [h('p', {}, err.message)];
  }
}

const part = (title, list) => (list.items.length === 0 ? [] : [
  h('h3', {}, title, list.next !== '' && ` (the first ${few})`),
  h('ul', {}, list.items.map((one) => h('li', {}, h('a', { class: 'code', href: page('nodes', one.path) }, shown(one.path))))),
]);

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

// kill ends the session, if the user is sure. The question has what is known of the session when it is asked. done is called when
// the session has ended.
async function kill(id, done) {
  if (!await signIn('To kill a session, sign in.')) {
    return;
  }
  const session = await get(at(id)).catch(() => null); // the kill says what is wrong
  const killed = await confirm({
    title: `Kill session ${id}?`,
    text: [
      `Its client${session?.address ? ` at ${session.address}` : ''} is told that the session has expired.`,
      !session ? 'Its ephemeral nodes will be removed.' : session.ephemerals > 0 ? `${plural(session.ephemerals, 'ephemeral node')} will be removed.` : 'It has no ephemeral nodes.',
    ],
    verb: 'Kill',
    act: () => act(`${at(id)}/kill`, {}),
  });
  if (killed) {
    done();
    say(`Session ${id} was killed.`);
    document.dispatchEvent(new Event('acted'));
  }
}
