// Holds what an administrator proves itself with: the value of the header Authorization. It stays in the
// storage of this tab until the user signs out or closes the tab. It is in no cookie, so that no page of
// another site can use it.

const storageKey = 'rollcall-authorization';

// credentialEvents fires "change", and "refused" if the member rejected the credentials.
export const credentialEvents = new EventTarget();

let currentAuthorization = readStoredAuthorization();

// caller is the last reply of GET /v1/whoami.
export const caller = { member: 0, administrator: '', changes: false, why: '', accepts: null };

function readStoredAuthorization() {
  try {
    return sessionStorage.getItem(storageKey) ?? '';
  } catch {
    return ''; // a browser that stores nothing
  }
}

// authorization returns the value of the header, or "".
export const authorization = () => currentAuthorization;

// setAuthorization stores the value; "" removes it. answer is the member's reply about it.
export function setAuthorization(value, answer = { administrator: '', changes: false, why: '' }) {
  currentAuthorization = value;
  Object.assign(caller, answer);
  try {
    if (value === '') {
      sessionStorage.removeItem(storageKey);
    } else {
      sessionStorage.setItem(storageKey, value);
    }
  } catch {
    // It holds until the page is loaded again.
  }
  credentialEvents.dispatchEvent(new Event('change'));
}

// rejectAuthorization reports that the member rejected what was sent, or needs credentials if that is "".
export function rejectAuthorization(sent) {
  if (sent === currentAuthorization) {
    if (sent !== '') {
      setAuthorization('');
    }
    credentialEvents.dispatchEvent(new Event('refused'));
  }
}

// authorizationHeader returns the header for a password of the user super or for a token. A header has bytes:
// each character of the result is one.
export function authorizationHeader(kind, secret) {
  const text = kind === 'token' ? `Bearer ${secret.trim()}` : `Digest super:${secret}`;
  return String.fromCharCode(...new TextEncoder().encode(text));
}
