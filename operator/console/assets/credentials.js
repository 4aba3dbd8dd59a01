// Holds what an administrator proves itself with: the value of the header Authorization. It stays in the
// storage of this tab until the user signs out or closes the tab. It is in no cookie, so that no page of
// another site can use it.

const key = 'rollcall-authorization';

// changes tells of "change", and of "refused" if the member did not accept the credentials.
export const changes = new EventTarget();

let held = stored();

// me is what the member says about whoever holds the credentials (GET /v1/whoami), as it was asked last.
export const me = { member: 0, administrator: '', changes: false, why: '', accepts: null };

function stored() {
  try {
    return sessionStorage.getItem(key) ?? '';
  } catch {
    return ''; // a browser that stores nothing
  }
}

// authorization returns the value of the header, or "".
export const authorization = () => held;

// hold keeps the value, and "" forgets it. answer is what the member says about it.
export function hold(value, answer = { administrator: '', changes: false, why: '' }) {
  held = value;
  Object.assign(me, answer);
  try {
    if (value === '') {
      sessionStorage.removeItem(key);
    } else {
      sessionStorage.setItem(key, value);
    }
  } catch {
    // It holds until the page is loaded again.
  }
  changes.dispatchEvent(new Event('change'));
}

// refused says that the member did not accept what was sent, or asks for credentials if that is "".
export function refused(sent) {
  if (sent === held) {
    if (sent !== '') {
      hold('');
    }
    changes.dispatchEvent(new Event('refused'));
  }
}

// header returns the value for a password of the user super, or for a token. A header has bytes: each
// character of the result is one.
export function header(kind, secret) {
  const text = kind === 'token' ? `Bearer ${secret.trim()}` : `Digest super:${secret}`;
  return String.fromCharCode(...new TextEncoder().encode(text));
}
