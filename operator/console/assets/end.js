// How one session ended.

import { get } from './ask.js';
import { current } from './current.js';
import { facts, renew } from './dom.js';
import { ago, count, moment, none, shown, span } from './format.js';
import { register } from './windows.js';

// endOf resolves to how a session ended, or to null if nobody remembers an end of it.
export async function endOf(id, signal) {
  return (await get('ends', { session: id, limit: 1 }, signal)).items[0] ?? null;
}

// rows are the facts of an end.
export const rows = (e) => [
  ['Ended', `${moment(e.ended)} (${ago(e.ended)})`],
  ['Reason', `${e.reason}: ${sentence(e)}`],
  ['By', shown(e.by) || null],
  ['Address', e.address || none, 'code'],
  ['Member', e.member ? `member ${e.member}` : none],
  ['Leader', `member ${e.leader}, term ${count(e.term)}`],
  ['Zxid', e.zxid, 'code'],
  ['Not heard for', span(e.silent_ms)],
  ['Timeout', span(e.timeout_ms)],
  ['Ephemerals', `${count(e.ephemerals)} removed with it`],
];

const sentence = (e) => ({
  closed: 'its client closed it.',
  expired: `the leader had not heard from it for ${span(e.silent_ms)}, and its timeout is ${span(e.timeout_ms)}.`,
  killed: 'an operator ended it.',
}[e.reason] ?? '');

// The window asks once: an end does not change, but its age does.
register('end', (id) => {
  let end;
  return current({
    title: `Session ${id}`,
    read: async (signal) => {
      end ??= await endOf(id, signal);
      if (!end) {
        throw new Error('No end of this session is remembered.');
      }
      return end;
    },
    fill: (e, body) => (body.firstChild ? renew(body.firstChild, rows(e)) : body.append(facts(rows(e)))),
  });
});
