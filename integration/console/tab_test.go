package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"rollcall/lab/process"
)

// tab is a tab of the browser with a storage of its own. By the end of its test it has sent requests to the member
// alone, and the browser has reported neither an error of the script nor a violation of the policy.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // the member's address, such as http://127.0.0.1:8080

	mu       sync.Mutex
	asked    []string // the URLs of all requests
	troubles []string
	excused  []string // what troubles begin with that the test has caused itself
}

// The sizes of a desk's screen and of a small phone's, in pixels of CSS.
const (
	deskWidth, deskHeight   = 1280, 900
	phoneWidth, phoneHeight = 375, 812
)

// newTab opens the console of a member at a path of its own, such as #/sessions.
func newTab(t *testing.T, base, path string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	p := &tab{t: t, ctx: ctx, base: base}
	t.Cleanup(func() {
		cancel()
		p.check()
	})
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	p.size(deskWidth, deskHeight)
	p.do(chromedp.Navigate(base + "/" + path))
	return p
}

// hear records an event of the browser about a page.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	case *runtime.EventConsoleAPICalled:
		for _, arg := range e.Args {
			p.troubles = append(p.troubles, fmt.Sprintf("console.%s: %s %s", e.Type, arg.Value, describe(arg)))
		}
	case *runtime.EventExceptionThrown:
		p.troubles = append(p.troubles, "exception: "+e.ExceptionDetails.Text+" "+describe(e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		p.troubles = append(p.troubles, fmt.Sprintf("log: %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
	}
}

func describe(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	return o.Description
}

// The test has caused these troubles itself: requests that a member rejects, with a status, and connections that break.
func refused(status int) string {
	return fmt.Sprintf("log: network: Failed to load resource: the server responded with a status of %d", status)
}

const broken = "log: network: Failed to load resource: net::ERR_"

// check fails the test if the page sent requests elsewhere, or if there was trouble.
func (p *tab) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		p.t.Error("the browser told of no request")
	}
	for _, url := range p.asked {
		if !strings.HasPrefix(url, p.base+"/") && !strings.HasPrefix(url, "data:") {
			p.t.Errorf("the page asked for %s", url)
		}
	}
	for _, trouble := range p.troubles {
		if !slices.ContainsFunc(p.excused, func(begin string) bool { return strings.HasPrefix(trouble, begin) }) {
			p.t.Error(trouble)
		}
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, process.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns the value of an expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, process.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// wait waits until an expression is true.
func (p *tab) wait(expression string) {
	p.t.Helper()
	err := process.Until(p.ctx, expression, func() bool { return eval[bool](p, "!!("+expression+")") })
	if err != nil {
		p.t.Fatalf("%v; the page shows\n%s", err, eval[string](p, `document.body.innerText`))
	}
}

// shows waits until an element that is visible has a text in it.
func (p *tab) shows(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`[...document.querySelectorAll(%q)].some((e) => e.checkVisibility() && e.innerText.includes(%q))`, selector, text))
}

// click clicks on the first visible element of a selector whose text has a text in it.
func (p *tab) click(selector, text string) {
	p.t.Helper()
	p.shows(selector, text)
	at := eval[[]float64](p, fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%q)].find((e) => e.checkVisibility() && e.innerText.includes(%q));
		e.scrollIntoView({block: 'center'});
		const box = e.getBoundingClientRect();
		return [box.x + box.width / 2, box.y + box.height / 2];
	})()`, selector, text))
	p.do(chromedp.MouseClickXY(at[0], at[1]))
}

// press presses keys one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// fill clicks into a field and replaces what it has.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.wait(fmt.Sprintf(`document.querySelector(%q)?.checkVisibility()`, selector))
	eval[bool](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.value = ''; return true; })()`, selector))
	p.press(text)
}

// size sets the size of the screen. A narrow one is a phone's.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	var options []chromedp.EmulateViewportOption
	if width < 500 {
		options = append(options, chromedp.EmulateMobile)
	}
	p.do(chromedp.EmulateViewport(width, height, options...))
}

// media sets features of the screen, such as prefers-color-scheme, by pairs of names and values.
func (p *tab) media(pairs ...string) {
	p.t.Helper()
	var features []*emulation.MediaFeature
	for i := 0; i < len(pairs); i += 2 {
		features = append(features, &emulation.MediaFeature{Name: pairs[i], Value: pairs[i+1]})
	}
	if _, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		p.t.Fatal(err)
	}
}

// row returns an expression for the row of a table whose text has a text in it.
func row(table, text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('%s tbody tr')].find((e) => e.checkVisibility() && e.innerText.includes(%q))`, table, text)
}
