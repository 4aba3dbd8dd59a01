// How one session ended.

import { getJSON } from './requests.js';
import { openRefreshingDialog } from './current.js';
import { factList, updateFacts } from './dom.js';
import { formatCount, formatDuration, formatTerm, formatTime, timeSince, unknownValue, visibleText } from './format.js';
import { registerWindow } from './windows.js';

// latestEnd resolves to the last end of a session, or to null if none is retained.
export async function latestEnd(id, signal) {
  return (await getJSON('ends', { session: id, limit: 1 }, signal)).items[0] ?? null;
}

export const endFacts = (e) => [
  ['Ended', `${formatTime(e.ended)} (${timeSince(e.ended)})`],
  ['Reason', `${e.reason}: ${reasonSentence(e)}`],
  ['By', visibleText(e.by) || null],
  ['Address', e.address || unknownValue, 'code'],
  ['Member', e.member ? `member ${e.member}` : unknownValue],
  ['Leader', `member ${e.leader}, term ${formatTerm(e.term)}`],
  ['Zxid', e.zxid, 'code'],
  ['Not heard for', formatDuration(e.silent_ms)],
  ['Timeout', formatDuration(e.timeout_ms)],
  ['Ephemerals', `${formatCount(e.ephemerals)} removed with it`],
];

const reasonSentence = (e) => ({
  closed: 'its client closed it.',
  expired: `the leader had not heard from it for ${formatDuration(e.silent_ms)}, and its timeout is ${formatDuration(e.timeout_ms)}.`,
  killed: 'an operator ended it.',
}[e.reason] ?? '');

// The window asks once: an end does not change, but its age does.
registerWindow('end', (id) => {
  let end;
  return openRefreshingDialog({
    title: `Session ${id}`,
    read: async (signal) => {
      end ??= await latestEnd(id, signal);
      if (!end) {
        throw new Error('No end of this session is remembered.');
      }
      return end;
    },
    fill: (e, body) => (body.firstChild ? updateFacts(body.firstChild, endFacts(e)) : body.append(factList(endFacts(e)))),
  });
});
