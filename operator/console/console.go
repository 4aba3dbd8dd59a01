// Package console is the page at / on which operators inspect and change the ensemble. It is one page with a few
// modules of plain script, embedded in the binary.
//
//   - Console: serves the page and its assets.
//   - assets/main.js: starts the views and switches between them. Each view is a file.
//   - assets/windows.js and assets/current.js: windows over a view. They have addresses, and refresh while open.
//   - assets/stream.js and assets/requests.js: the only ones that talk to the member.
//
// The page and the assets hold no data, so every caller may load them. The script requests data under /v1/, where
// the member checks the caller. It inserts everything from outside as text; Policy forbids a browser to take text
// for HTML.
package console

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// Policy is the Content-Security-Policy of the page and its assets. The browser loads and requests nothing from
// elsewhere, runs no inline script, and never parses text as HTML (Trusted Types).
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// Prefix is the path below which the assets are.
const Prefix = "/console/"

//go:embed page.html assets
var embeddedFiles embed.FS

// mediaTypes are the media types of assets by extension. The system's own table may lack them.
var mediaTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// tab is one of the page's views in the navigation.
type tab struct{ Name, Title string }

// tabs are the views in order. assets/main.js has the script of each.
var tabs = []tab{{"overview", "Overview"}, {"sessions", "Sessions"}, {"ends", "Ends"}, {"slow", "Slow"}, {"nodes", "Nodes"}}

// endLists are the lists of the tab "ends", which shows one of them.
var endLists = []string{"ends", "removals"}

// Console serves the page and its assets. Make one with New. It is safe for concurrent use.
type Console struct {
	page   []byte
	assets map[string]asset // by name
}

type asset struct {
	mediaType string // media type
	body      []byte
}

// New returns the Console of this process. All of its members share it, because it never changes.
var New = sync.OnceValues(build)

func build() (*Console, error) {
	c := &Console{assets: map[string]asset{}}
	names, err := fs.Glob(embeddedFiles, "assets/*")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	var modules []string // that the browser loads early, because others import them
	for _, name := range names {
		body, err := embeddedFiles.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		kind := mediaTypes[path.Ext(name)]
		if _, _, err := mime.ParseMediaType(kind); err != nil {
			return nil, fmt.Errorf("console: %s: type %q: %w", name, kind, err)
		}
		base := path.Base(name)
		c.assets[base] = asset{kind, body}
		if bytes.Contains(body, []byte("\nexport ")) || bytes.HasPrefix(body, []byte("export ")) {
			modules = append(modules, base)
		}
	}
	page, err := template.ParseFS(embeddedFiles, "page.html")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	var out bytes.Buffer
	if err := page.Execute(&out, map[string]any{
		"Prefix": Prefix, "Tabs": tabs, "Lists": endLists,
		"Modules": modules,
	}); err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.page = out.Bytes()
	return c, nil
}

// ServePage serves the page.
func (c *Console) ServePage(w http.ResponseWriter, _ *http.Request) {
	writeAsset(w, asset{"text/html; charset=utf-8", c.page})
}

// ServeAsset serves the asset that the path names below Prefix, or the status 404.
func (c *Console) ServeAsset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Prefix)
	a, ok := c.assets[name]
	if !ok {
		http.Error(w, "the console has no such file; the page is at /", http.StatusNotFound)
		return
	}
	writeAsset(w, a)
}

// writeAsset writes an asset. The length lets the browser notice a truncated reply.
func writeAsset(w http.ResponseWriter, a asset) {
	header := w.Header()
	header.Set("Content-Type", a.mediaType)
	header.Set("Content-Length", strconv.Itoa(len(a.body)))
	header.Set("Content-Security-Policy", Policy)
	_, _ = w.Write(a.body) // a browser that left needs no reply
}
