// The data of nodes: bytes, which are mostly text.

// toBytes returns the bytes of base64, and toBase64 the base64 of bytes.
export const toBytes = (base64) => Uint8Array.from(atob(base64 ?? ''), (c) => c.charCodeAt(0));
export const toBase64 = (bytes) => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(''));

// decodeText returns bytes as text, or null if they are none. If cut, the last character may be incomplete.
export function decodeText(bytes, cut = false) {
  try {
    const found = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes, { stream: cut });
    return /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/.test(found) ? null : found;
  } catch {
    return null;
  }
}

// hexDump returns the first bytes in hexadecimal, 16 per line, with the letters among them.
export function hexDump(bytes, most) {
  const lines = [];
  for (let at = 0; at < Math.min(bytes.length, most); at += 16) {
    const part = Array.from(bytes.slice(at, Math.min(at + 16, most)));
    const hex = part.map((b) => b.toString(16).padStart(2, '0')).join(' ').padEnd(47);
    const letters = part.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : '.')).join('');
    lines.push(`${at.toString(16).padStart(6, '0')}  ${hex}  ${letters}`);
  }
  return lines.join('\n');
}
