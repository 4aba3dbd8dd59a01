// Windows that are read again as long as they are open.

import { openDialog } from './dialog.js';
import { h, setText } from './dom.js';
import { asOf, withFullStop } from './format.js';

// refreshInterval is the time between a reply and the next request, in milliseconds.
const refreshInterval = 1000;

// openRefreshingDialog opens a dialog and returns it. read(signal) resolves to its value. fill(value, body)
// shows the value in the dialog's body, and updates what is there already. If a later reply is missing,
// the dialog shows the time of the last one.
export function openRefreshingDialog({ title, read, fill }) {
  const question = new AbortController();
  const note = h('p', { class: 'note', role: 'status', hidden: true });
  const body = h('div', {}, h('p', { class: 'sub' }, 'Reading…'));
  let timer = 0;
  let heard = 0; // when the last answer came
  const look = async () => {
    try {
      if (!document.hidden) {
        const value = await read(question.signal);
        if (question.signal.aborted) {
          return;
        }
        if (heard === 0) {
          body.replaceChildren();
        }
        heard = Date.now();
        fill(value, body);
        note.hidden = true;
      }
    } catch (err) {
      if (question.signal.aborted) {
        return;
      }
      if (heard === 0) {
        body.replaceChildren(h('p', { class: 'failure' }, err.message));
        if (err.status === 404) {
          return; // there will be none
        }
      } else {
        note.hidden = false;
        setText(note, `This is ${asOf(heard)}. ${withFullStop(err.message)}`);
      }
    }
    body.toggleAttribute('data-old', !note.hidden);
    timer = setTimeout(look, refreshInterval);
  };
  const dialog = openDialog({
    title,
    build: () => [note, body],
    ended: () => {
      clearTimeout(timer);
      question.abort();
    },
  });
  look();
  return dialog;
}
