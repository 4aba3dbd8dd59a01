// Windows with an address: whoever opens the address sees the same. A window closes when the address is another.

import { here, over, read, rename } from './address.js';
import { leave } from './dialog.js';

const kinds = new Map(); // what opens a window, by its kind
let shown = null; // the window that the address names: {address, dialog}

// register says how windows of a kind are opened: open(id, rest) returns the dialog. rest is that of the page's address.
export function register(kind, open) {
  kinds.set(kind, open);
}

// visit opens a window, and makes it part of the page's address.
export function visit(kind, id) {
  location.hash = over(kind, id);
}

// follow closes the windows of another address, and opens the one that the address names.
export function follow() {
  const address = location.hash;
  if (shown?.address === address) {
    return;
  }
  shown = null;
  leave();
  const { kind, id, rest } = read();
  const open = kinds.get(kind);
  if (!open) {
    return;
  }
  const mine = { address, dialog: open(id, rest) };
  shown = mine;
  mine.dialog.addEventListener('close', () => {
    if (shown === mine) {
      shown = null;
      rename(here());
    }
  });
}
