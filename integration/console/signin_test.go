package console

import (
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// The sign-in offers the credentials that the member has, and says so if it has none.
func TestSignInOffers(t *testing.T) {
	t.Parallel()
	f := newFake(t, 1)
	for _, tt := range []struct {
		accepts []string
		want    string
		radios  int
	}{
		{[]string{"super", "token"}, "Password or token", 2},
		{[]string{"token"}, "Token", 0},
		{[]string{"super"}, "Password of super", 0},
		{[]string{}, "This member knows no credentials", 0},
	} {
		f.set(func() { f.accepts = tt.accepts })
		p := newTab(t, f.URL, "")
		p.shows("#live", "Live")
		p.wait(`document.title.includes('member 2')`) // it has said what it accepts
		p.click("#sign", "Sign in")
		p.shows("dialog", tt.want)
		if n := eval[int](p, `document.querySelectorAll('dialog [type=radio]').length`); n != tt.radios {
			t.Errorf("%q: %d to choose from, want %d", tt.accepts, n, tt.radios)
		}
		if len(tt.accepts) != 1 {
			continue
		}
		p.fill("dialog [name=secret]", "pass")
		p.press(kb.Enter)
		p.shows("#sign", "Sign out")
		kind := map[string]string{"token": "Bearer pass", "super": "Digest super:pass"}[tt.accepts[0]]
		if held := eval[string](p, `sessionStorage.getItem('rollcall-authorization')`); held != kind {
			t.Errorf("signed in with %q, want %q", held, kind)
		}
	}
}
