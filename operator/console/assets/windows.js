// Windows with an address: whoever opens the address sees the same. A window closes when the address is another.

import { currentPageAddress, readAddress, replacePageAddress, windowAddress } from './address.js';
import { closeDialogs } from './dialog.js';

const windowOpeners = new Map(); // what opens a window, by its kind
let openWindow = null; // the window that the address names: {address, dialog}

// registerWindow sets the function for windows of a kind: open(id, rest) returns the dialog. rest is that of the
// page's address.
export function registerWindow(kind, open) {
  windowOpeners.set(kind, open);
}

// visitWindow opens a window, and makes it part of the page's address.
export function visitWindow(kind, id) {
  location.hash = windowAddress(kind, id);
}

// followAddress closes the windows of another address, and opens the one that the address names.
export function followAddress() {
  const address = location.hash;
  if (openWindow?.address === address) {
    return;
  }
  openWindow = null;
  closeDialogs();
  const { kind, id, rest } = readAddress();
  const open = windowOpeners.get(kind);
  if (!open) {
    return;
  }
  const mine = { address, dialog: open(id, rest) };
  openWindow = mine;
  mine.dialog.addEventListener('close', () => {
    if (openWindow === mine) {
      openWindow = null;
      if (location.hash === address) { // otherwise the user is on the way to another page already
        replacePageAddress(currentPageAddress());
      }
    }
  });
}
