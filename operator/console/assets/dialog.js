// Windows over the page. The browser keeps the focus inside, closes them by Escape, and gives the focus
// back to the element that had it.

import { $, h } from './dom.js';

// openDialog opens a dialog and returns it. build(close) returns its content. ended receives the argument of
// close, or undefined if the user left.
export function openDialog({ title, kind = '', build, ended = () => {} }) {
  let result;
  const close = (value) => {
    result = value;
    dialog.close();
  };
  const heading = h('h2', { id: `dialog-${++dialogCount}`, tabindex: '-1' }, title);
  const dialog = h('dialog', { class: kind, 'aria-labelledby': heading.id },
    h('div', { class: 'head' }, heading, h('button', { type: 'button', class: 'quiet', 'aria-label': 'Close', onclick: () => close() }, '✕')));
  dialog.append(...[build(close)].flat());
  dialog.addEventListener('close', () => {
    dialog.remove();
    ended(result);
  });
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) {
      close(); // beside the window: its content covers all of it
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  ($('[autofocus]', dialog) ?? heading).focus();
  return dialog;
}

let dialogCount = 0;

// closeDialogs closes all dialogs, the last one first, as if the user left them.
export function closeDialogs() {
  for (const dialog of [...document.querySelectorAll('dialog')].reverse()) {
    dialog.close();
  }
}

// confirmAction resolves to the user's decision. act may run before that: if it fails, the dialog shows the
// error and stays.
export function confirmAction({ title, text, verb, act }) {
  return new Promise((resolve) => {
    openDialog({
      title,
      kind: 'narrow',
      ended: (done) => resolve(done === true),
      build: (close) => actionForm({
        fields: text.map((line) => h('p', {}, line)),
        verb, tone: 'danger', cancel: () => close(), done: () => close(true), act,
        careful: true,
      }),
    });
  });
}

// actionForm returns a form that runs act(data) with its FormData. Meanwhile it is disabled. It shows the error
// of act. done receives the result.
export function actionForm({ fields, verb, tone = 'main', cancel, done, act, careful = false }) {
  const failure = h('p', { class: 'failure', role: 'alert' });
  const go = h('button', { class: tone }, verb);
  const inner = h('fieldset', {}, fields, failure,
    h('div', { class: 'buttons' }, h('button', { type: 'button', class: 'quiet', autofocus: careful, onclick: cancel }, 'Cancel'), go));
  return h('form', {
    autocomplete: 'off',
    onsubmit: async (event) => {
      event.preventDefault();
      const data = new FormData(event.target);
      failure.textContent = '';
      inner.disabled = true;
      try {
        done(await act(data));
      } catch (err) {
        inner.disabled = false;
        failure.textContent = err.message;
        go.focus();
      }
    },
  }, inner);
}
