// The page's address: #/TAB or #/TAB/REST, and ?KIND=ID behind it while a window is open over the page.

const form = /^#\/([a-z]+)(?:\/(.*?))?(?:\?(member|session|end|removal)=([^?]*))?$/s;

// read returns the parts of the address that the browser shows. Those that it lacks are "".
export function read() {
  const [, tab = '', rest = '', kind = '', id = ''] = form.exec(location.hash) ?? [];
  return { tab, rest: decoded(rest), kind, id: decoded(id) };
}

// page returns the address of a tab.
export const page = (tab, rest = '') => `#/${tab}${rest && `/${encodeURIComponent(rest)}`}`;

let shown = ''; // the address of the page that is shown, without that of a window

// here returns the address of the page that is shown, without that of a window. arrive sets it.
export const here = () => shown;
export function arrive(address) {
  shown = address;
}

// rename gives the page that is shown another address.
export function rename(address) {
  shown = address;
  history.replaceState(null, '', address);
}

// over returns the address of a window over the page that is shown.
export const over = (kind, id) => `${shown}?${kind}=${encodeURIComponent(id)}`;

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
