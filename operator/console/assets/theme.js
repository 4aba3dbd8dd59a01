'use strict';
// Sets the colours before the page is drawn, and lets the user change them. It is no module, because the
// browser waits for it.
{
  const names = { auto: 'Colours: as the system', light: 'Colours: light', dark: 'Colours: dark' };
  const key = 'rollcall-colours';
  const root = document.documentElement;

  // A browser that stores nothing throws.
  const stored = () => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  };
  const set = (choice) => {
    root.dataset.colours = choice in names ? choice : 'auto';
  };
  set(stored());

  document.addEventListener('DOMContentLoaded', () => {
    const button = document.getElementById('theme');
    const show = () => {
      button.textContent = { auto: '◐', light: '☀', dark: '☾' }[root.dataset.colours];
      button.setAttribute('aria-label', names[root.dataset.colours]);
      button.title = names[root.dataset.colours];
    };
    button.addEventListener('click', () => {
      const all = Object.keys(names);
      set(all[(all.indexOf(root.dataset.colours) + 1) % all.length]);
      try {
        localStorage.setItem(key, root.dataset.colours);
      } catch {
        // It holds until the page is loaded again.
      }
      show();
      root.dispatchEvent(new Event('colours'));
    });
    show();
  });
}
