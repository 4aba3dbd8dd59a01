// Windows that are read again as long as they are open.

import { show } from './dialog.js';
import { h, write } from './dom.js';
import { asOf, sentence } from './format.js';

// every is the time between an answer and the next question, in milliseconds.
const every = 1000;

// current opens a dialog and returns it. read(signal) resolves to what it shows, and fill(value, body, close) puts that into
// the dialog's body, also if it is there already. If a later answer does not come, the dialog says as of when it is.
export function current({ title, read, fill }) {
  const question = new AbortController();
  const note = h('p', { class: 'note', role: 'status', hidden: true });
  const body = h('div', {}, h('p', { class: 'sub' }, 'Reading…'));
  let timer = 0;
  let heard = 0; // when the last answer came
  let shut;
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
        fill(value, body, shut);
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
        write(note, `This is ${asOf(heard)}. ${sentence(err.message)}`);
      }
    }
    body.toggleAttribute('data-old', !note.hidden);
    timer = setTimeout(look, every);
  };
  const dialog = show({
    title,
    build: (close) => {
      shut = close;
      return [note, body];
    },
    ended: () => {
      clearTimeout(timer);
      question.abort();
    },
  });
  look();
  return dialog;
}
