// Windows over the page. The browser keeps the focus inside, closes them by Escape, and gives the focus
// back to the element that had it.

import { $, h } from './dom.js';

// show opens a dialog and returns it. build(close) returns its content. ended is called with what close was
// called with, or undefined if the user has left.
export function show({ title, kind = '', build, ended = () => {} }) {
  let result;
  const close = (value) => {
    result = value;
    dialog.close();
  };
  const heading = h('h2', { id: `dialog-${++opened}`, tabindex: '-1' }, title);
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

let opened = 0;

// leave closes all dialogs, as a user does who leaves them. The last one opened closes first.
export function leave() {
  for (const dialog of [...document.querySelectorAll('dialog')].reverse()) {
    dialog.close();
  }
}

// confirm asks the user, and resolves to true or false. act may do it meanwhile: if it fails, the dialog
// says why and stays.
export function confirm({ title, text, verb, act }) {
  return new Promise((resolve) => {
    show({
      title,
      kind: 'narrow',
      ended: (done) => resolve(done === true),
      build: (close) => form({
        fields: text.map((line) => h('p', {}, line)),
        verb, tone: 'danger', cancel: () => close(), done: () => close(true), act,
        careful: true,
      }),
    });
  });
}

// form returns a form that does something. act(data) is called with the FormData. While it runs the form
// takes nothing, and if it throws, the form shows the error. done is called with its result.
export function form({ fields, verb, tone = 'main', cancel, done, act, careful = false }) {
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
