package console

import (
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// newTest returns a Console, and the text of its page.
func newTest(t *testing.T) (*Console, string) {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	c.ServePage(w, httptest.NewRequest("GET", "/", nil))
	if kind := w.Header().Get("Content-Type"); w.Code != 200 || kind != "text/html; charset=utf-8" {
		t.Fatalf("the page: %d, %s", w.Code, kind)
	}
	return c, w.Body.String()
}

// Every asset is served with its type and the policy, and nothing else is.
func TestAssets(t *testing.T) {
	c, _ := newTest(t)
	if len(c.assets) < 10 {
		t.Errorf("%d assets", len(c.assets))
	}
	for name, a := range c.assets {
		w := httptest.NewRecorder()
		c.ServeAsset(w, httptest.NewRequest("GET", Prefix+name, nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != a.mediaType ||
			w.Header().Get("Content-Security-Policy") != Policy || w.Body.Len() == 0 {
			t.Errorf("%s: %d, %v, %d bytes", name, w.Code, w.Header(), w.Body.Len())
		}
	}
	for _, path := range []string{"", "nosuch.js", "../page.html", "page.html", "assets/main.js", "main.js/", "..%2fpage.html"} {
		w := httptest.NewRecorder()
		c.ServeAsset(w, httptest.NewRequest("GET", Prefix+path, nil))
		if w.Code != 404 || !strings.Contains(w.Body.String(), "no such file") {
			t.Errorf("%q: %d %s, want 404", path, w.Code, w.Body)
		}
	}
}

// The page and the modules refer to assets that exist, and to nothing elsewhere. Each asset is used.
func TestReferences(t *testing.T) {
	c, page := newTest(t)
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`(modulepreload" href|src|href)="([^"#]+)"`).FindAllStringSubmatch(page, -1) {
		name, below := strings.CutPrefix(m[2], Prefix)
		if !below || c.assets[name].body == nil {
			t.Errorf("the page refers to %s", m[2])
		}
		used[name] = used[name] || !strings.HasPrefix(m[1], "modulepreload")
	}
	for name, a := range c.assets {
		text := string(a.body)
		for _, m := range regexp.MustCompile(`from '\./([^']+)'`).FindAllStringSubmatch(text, -1) {
			if used[m[1]] = true; c.assets[m[1]].body == nil {
				t.Errorf("%s imports %s, which does not exist", name, m[1])
			}
		}
		if elsewhere := regexp.MustCompile(`(?:https?:|url\(|@import|['"]//)[^'"\s]*`).FindString(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "")); elsewhere != "" {
			t.Errorf("%s refers to %s", name, elsewhere)
		}
	}
	for name := range c.assets {
		if !used[name] {
			t.Errorf("nothing uses %s", name)
		}
	}
}

// The policy allows no inline script or style, and no text is made HTML. A browser would refuse it; here it
// is found without one.
func TestNothingInline(t *testing.T) {
	c, page := newTest(t)
	if found := regexp.MustCompile(`(?i)<style|style="|\son[a-z]+="|<script>|javascript:`).FindString(page); found != "" {
		t.Errorf("the page has %s", found)
	}
	parsed := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\b|new Function|srcdoc`)
	for name, a := range c.assets {
		if found := parsed.FindString(string(a.body)); found != "" {
			t.Errorf("%s uses %s", name, found)
		}
	}
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'", "frame-ancestors 'none'"} {
		if !slices.Contains(strings.Split(Policy, "; "), part) {
			t.Errorf("the policy lacks %s", part)
		}
	}
}

// Each tab leads to a section of the page with a title.
func TestTabs(t *testing.T) {
	_, page := newTest(t)
	_, page, _ = strings.Cut(page, "<nav ")
	for _, tab := range tabs {
		for _, want := range []string{`<a href="#/` + tab.Name + `">`, `<section id="` + tab.Name + `"`, `id="` + tab.Name + `-title" tabindex="-1"`} {
			if !strings.Contains(page, want) {
				t.Errorf("the page has no %s", want)
			}
		}
	}
}
