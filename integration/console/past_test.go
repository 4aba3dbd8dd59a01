package console

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"rollcall/lab/process"
)

// signInWithToken signs in as an administrator.
func signInWithToken(p *tab) {
	p.t.Helper()
	p.click("#sign", "Sign in")
	p.click("dialog label", "Token")
	p.fill("dialog [name=secret]", "abcdefghijklmnop")
	p.press(kb.Enter)
	p.wait(`!document.querySelector('dialog[open]')`)
}

// pastAsked returns the moments of the requests for sessions of the past.
func (f *fake) pastAsked() (moments []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.asked {
		if q.Has("at") {
			moments = append(moments, q.Get("at"))
		}
	}
	return moments
}

// presentRequests returns the number of the requests for sessions of now.
func (f *fake) presentRequests() int {
	past := len(f.pastAsked())
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked) - past
}

// The slider shows the sessions of the moment that the user chooses by keys, with its time and zxid, and further pages of the same state.
// They stay until the button leads back to now.
func TestSlider(t *testing.T) {
	t.Parallel()
	f := newFake(t, 500)
	f.set(func() { f.kept = time.Now().Add(-10 * time.Hour) })
	p := newTab(t, f.URL, "#/sessions")
	p.wait(`document.querySelector('#past-time').disabled`)
	p.shows("#past-why", "sign in to see the sessions of an earlier moment")
	signInWithToken(p)
	p.shows("#past-why", "keeps its log since")
	p.wait(`document.querySelector('#past-moment').value === 'Now' && document.querySelector('#past-now').hidden`)
	p.shows("#sessions .total", "500 sessions")

	eval[bool](p, `(() => { document.querySelector('#past-time').focus(); return true; })()`)
	p.press(kb.PageDown, kb.ArrowLeft, kb.ArrowLeft)
	p.shows("#past-moment", "the state after zxid "+pastZxid+", of ")
	p.wait(`document.querySelector('#past-time').getAttribute('aria-valuetext').includes('` + pastZxid + `')`)
	p.wait(row("#sessions", "0x2a1f80663020001") + ` && !` + row("#sessions", "0x2a1f80663020002"))
	p.shows("#sessions .total", "at least 100 sessions")
	p.wait(`document.querySelector('#filter [name=state]').disabled`)
	if moments := f.pastAsked(); len(moments) != 1 {
		t.Errorf("three keys asked for %q", moments)
	} else if at, err := time.Parse(time.RFC3339, moments[0]); err != nil || time.Since(at) < 30*time.Minute || time.Since(at) > 2*time.Hour {
		t.Errorf("a tenth of ten hours ago is %q: %v", moments[0], err)
	}
	p.click("#sessions [data-to=on]", "Next")
	p.shows("#sessions .pager", "sessions 101 to 200")
	if moments := f.pastAsked(); len(moments) != 2 || moments[1] != pastZxid {
		t.Errorf("the second page is of %q", moments)
	}
	newTab(t, f.URL, "#/sessions")
	before := f.presentRequests()
	err := process.Until(p.ctx, "another page has updated its list of now twice", func() bool { return f.presentRequests() >= before+3 })
	if err != nil {
		t.Fatal(err)
	}
	if moments := f.pastAsked(); len(moments) != 2 {
		t.Errorf("the past was asked for again: %q", moments)
	}

	p.click("#past-now", "Back to now")
	p.wait(`document.querySelector('#past-moment').value === 'Now' && document.querySelector('#past-now').hidden && document.activeElement.id === 'past-time'`)
	p.wait(row("#sessions", "0x2a1f80663020002"))
	p.shows("#sessions .total", "500 sessions")
	p.wait(`!document.querySelector('#filter [name=state]').disabled && !document.querySelector('#sessions').hasAttribute('data-past')`)
}

// Without a past the slider is disabled and shows the reason. An error about a moment is shown, and names the command.
func TestSliderWithoutPast(t *testing.T) {
	t.Parallel()
	f := newFake(t, 10)
	p := newTab(t, f.URL, "#/sessions")
	signInWithToken(p)
	p.shows("#past-why", "keeps no snapshot yet, so there is no past to show")
	p.wait(`document.querySelector('#past-time').disabled`)

	f.set(func() { f.kept, f.tooBig = time.Now().Add(-time.Hour), true })
	p = newTab(t, f.URL, "#/sessions")
	p.excused = []string{refused(501)}
	signInWithToken(p)
	p.wait(`!document.querySelector('#past-time').disabled`)
	eval[bool](p, `(() => { const s = document.querySelector('#past-time'); s.value = s.min; return s.dispatchEvent(new Event('input')); })()`)
	p.shows("#sessions .note", "use the command rollcall sessions --at")
	p.wait(`document.querySelector('#live').innerText === 'Live'`)
	p.wait(fmt.Sprintf(`!%s`, row("#sessions", "0x")))
	p.click("#past-now", "Back to now")
	p.wait(row("#sessions", "0x2a1f80663020001"))
}
