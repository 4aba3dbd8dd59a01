// The dialog in which an administrator signs in.

import { getJSON, postJSON } from './requests.js';
import { authorization, authorizationHeader, caller, credentialEvents, rejectAuthorization, setAuthorization } from './credentials.js';
import { actionForm, openDialog } from './dialog.js';
import { $, announce, h } from './dom.js';

let openSignIn = null; // the Promise of the dialog that is open

// signIn resolves to true once the user is signed in. Otherwise it opens the dialog, with a reason.
export function signIn(reason) {
  if (authorization() !== '') {
    return Promise.resolve(true);
  }
  openSignIn ??= askForSecret(reason).finally(() => {
    openSignIn = null;
  });
  return openSignIn;
}

// secretKinds are the credentials that a member may know, by its names for them.
const secretKinds = [
  { name: 'super', value: 'password', title: 'Password of super' },
  { name: 'token', value: 'token', title: 'Token' },
];

// secretFields returns the fields for the secret. The user chooses among the credentials that the member
// accepts, or among all if it does not list them, as to another machine without credentials.
function secretFields() {
  const offered = secretKinds.filter((k) => caller.accepts?.includes(k.name) ?? true);
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

function askForSecret(reason) {
  const secret = secretFields();
  if (!secret) {
    return new Promise((resolve) => {
      openDialog({
        title: 'Sign in', kind: 'narrow', ended: () => resolve(false),
        build: () => h('p', {}, 'This member knows no credentials, so nobody can sign in. Set admin.tokenFile or DigestAuthenticationProvider.superDigest in its configuration, and start it again.'),
      });
    });
  }
  return new Promise((resolve) => {
    openDialog({
      title: 'Sign in',
      kind: 'narrow',
      ended: (done) => resolve(done === true),
      build: (close) => actionForm({
        fields: [
          reason && h('p', {}, reason),
          ...secret,
          h('p', { class: 'sub' }, 'It stays in this tab, until you sign out or close it.'),
        ],
        verb: 'Sign in',
        cancel: () => close(),
        done: () => close(true),
        act: checkSecret,
      }),
    });
  });
}

// checkSecret stores the credentials if the member accepts them.
async function checkSecret(data) {
  const value = authorizationHeader(data.get('kind'), data.get('secret'));
  const answer = await getJSON('whoami', {}, undefined, value);
  if (answer.administrator === '') {
    throw new Error('The member does not accept this. It knows the password of super if DigestAuthenticationProvider.superDigest is set, and a token if admin.tokenFile is.');
  }
  setAuthorization(value, answer);
}

// refreshCaller reads the member's id and the user's rights.
export async function refreshCaller() {
  const sent = authorization();
  const answer = await getJSON('whoami');
  if (sent === authorization()) {
    Object.assign(caller, answer);
    if (sent !== '' && answer.administrator === '') {
      rejectAuthorization(sent); // the password or the token is another by now
    }
  }
}

// changeAsAdministrator sends a change for a user who is signed in, and resolves to the reply.
export async function changeAsAdministrator(path, body) {
  if (!await signIn('To change something, sign in.')) {
    throw new Error('You are not signed in.');
  }
  return postJSON(path, body);
}

// start sets up the button of the header. changed is called after the user has signed in or out.
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
      setAuthorization('');
      announce('You are signed out.');
    }
  });
  credentialEvents.addEventListener('change', () => {
    look();
    changed();
  });
  credentialEvents.addEventListener('refused', () => declined || ask('The member asks for credentials.'));
  look();
}
