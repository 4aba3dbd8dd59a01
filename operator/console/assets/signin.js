// The dialog in which an administrator signs in.

import { get, post } from './ask.js';
import { authorization, changes, header, hold, me, refused } from './credentials.js';
import { form, show } from './dialog.js';
import { $, h, say } from './dom.js';

let shown = null; // the Promise of the dialog that is open

// signIn resolves to whether the user is signed in. If the user is not, it asks, and reason says why.
export function signIn(reason) {
  if (authorization() !== '') {
    return Promise.resolve(true);
  }
  shown ??= ask(reason).finally(() => {
    shown = null;
  });
  return shown;
}

// The credentials that a member may know, by its names for them.
const kinds = [
  { name: 'super', value: 'password', title: 'Password of super' },
  { name: 'token', value: 'token', title: 'Token' },
];

// choice returns the fields for the secret. The user chooses among the credentials that the member has. If it has not said which
// ones it has, as to another machine without credentials, these are all.
function choice() {
  const offered = kinds.filter((k) => me.accepts?.includes(k.name) ?? true);
  if (offered.length === 0) {
    return null;
  }
  const secret = (title) => h('label', {}, title, h('input', { type: 'password', name: 'secret', required: true, autofocus: true, autocomplete: 'off' }));
  if (offered.length === 1) {
    return [h('input', { type: 'hidden', name: 'kind', value: offered[0].value }), secret(offered[0].title)];
  }
  return [
    h('div', { class: 'choice', role: 'radiogroup', 'aria-label': 'Sign in with' }, offered.map((k, i) => h('label', {},
      h('input', { type: 'radio', name: 'kind', value: k.value, checked: i === 0 }), k.title))),
    secret('Password or token'),
  ];
}

function ask(reason) {
  const secret = choice();
  if (!secret) {
    return new Promise((resolve) => {
      show({
        title: 'Sign in', kind: 'narrow', ended: () => resolve(false),
        build: () => h('p', {}, 'This member knows no credentials, so nobody can sign in. Set admin.tokenFile or DigestAuthenticationProvider.superDigest in its configuration, and start it again.'),
      });
    });
  }
  return new Promise((resolve) => {
    show({
      title: 'Sign in',
      kind: 'narrow',
      ended: (done) => resolve(done === true),
      build: (close) => form({
        fields: [
          reason && h('p', {}, reason),
          ...secret,
          h('p', { class: 'sub' }, 'It stays in this tab, until you sign out or close it.'),
        ],
        verb: 'Sign in',
        cancel: () => close(),
        done: () => close(true),
        act: check,
      }),
    });
  });
}

// check has the member say whether it knows the credentials, and keeps them if so.
async function check(data) {
  const value = header(data.get('kind'), data.get('secret'));
  const answer = await get('whoami', {}, undefined, value);
  if (answer.administrator === '') {
    throw new Error('The member does not accept this. It knows the password of super if DigestAuthenticationProvider.superDigest is set, and a token if admin.tokenFile is.');
  }
  hold(value, answer);
}

// learn asks the member who it is, and what the user may do.
export async function learn() {
  const sent = authorization();
  const answer = await get('whoami');
  if (sent === authorization()) {
    Object.assign(me, answer);
    if (sent !== '' && answer.administrator === '') {
      refused(sent); // the password or the token is another by now
    }
  }
}

// act has the member change something for a user who is signed in, and resolves to the answer.
export async function act(path, body) {
  if (!await signIn('To change something, sign in.')) {
    throw new Error('You are not signed in.');
  }
  return post(path, body);
}

// start makes the button of the header work. changed is called when the user has signed in or out.
export function start(changed) {
  const button = $('#sign');
  const look = () => {
    button.textContent = authorization() === '' ? 'Sign in' : 'Sign out';
    document.body.toggleAttribute('data-signed', authorization() !== '');
  };
  let declined = false; // the user has been asked, and will not be again
  const ask = async (reason) => {
    declined = !await signIn(reason);
  };
  button.addEventListener('click', () => {
    if (authorization() === '') {
      ask();
    } else {
      hold('');
      say('You are signed out.');
    }
  });
  changes.addEventListener('change', () => {
    look();
    changed();
  });
  changes.addEventListener('refused', () => declined || ask('The member asks for credentials.'));
  look();
}
