// Package console tests the page at / in a browser: Debian's Chromium, driven over its debugging protocol.
package console
