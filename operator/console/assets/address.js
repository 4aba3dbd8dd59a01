// The page's address: #/TAB or #/TAB/REST, and ?KIND=ID behind it while a window is open over the page.

const addressPattern = /^#\/([a-z]+)(?:\/(.*?))?(?:\?(member|session|end|removal|slow)=([^?]*))?$/s;

// readAddress returns the parts of the browser's address. Missing parts are "".
export function readAddress() {
  const [, tab = '', rest = '', kind = '', id = ''] = addressPattern.exec(location.hash) ?? [];
  return { tab, rest: decodeOrKeep(rest), kind, id: decodeOrKeep(id) };
}

// pageAddress returns the address of a tab.
export const pageAddress = (tab, rest = '') => `#/${tab}${rest && `/${encodeURIComponent(rest)}`}`;

let currentPage = ''; // the address of the page that is shown, without that of a window

// currentPageAddress returns the address of the current page, without a window. setCurrentPage sets it.
export const currentPageAddress = () => currentPage;
export function setCurrentPage(address) {
  currentPage = address;
}

// replacePageAddress gives the current page another address.
export function replacePageAddress(address) {
  currentPage = address;
  history.replaceState(null, '', address);
}

// windowAddress returns the address of a window over the current page.
export const windowAddress = (kind, id) => `${currentPage}?${kind}=${encodeURIComponent(id)}`;

function decodeOrKeep(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
