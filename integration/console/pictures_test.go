package console

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// mostBytes is the largest size of a picture in docs/pictures.
const mostBytes = 150_000

const manySessions = 10_000

// TestPictures takes the pictures of docs/console.md. With ROLLCALL_PICTURES it keeps them in that directory, and
// there are 10 and manySessions sessions. Otherwise there are 200, and the test sees that they can be taken.
func TestPictures(t *testing.T) {
	dir, many := os.Getenv("ROLLCALL_PICTURES"), manySessions
	if dir == "" {
		dir, many = t.TempDir(), 200
	}
	take := func(name string, c *crowd, path, scheme string, width, height int64) {
		p := newTab(t, c.consoles[0], path)
		p.media("prefers-color-scheme", scheme)
		p.size(width, height)
		p.shows("#live", "Live")
		p.wait(`document.querySelectorAll('main .name').length > 2`)
		if many == manySessions {
			p.wait(`document.querySelector('#tiles svg .line').getAttribute('d').split('L').length > 20`) // a course of 20 s
		}
		png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if kept, err := os.Stat(filepath.Join("../../docs/pictures", name)); err != nil || kept.Size() > mostBytes || len(png) < 5_000 {
			t.Errorf("%s has %d bytes, and the one in the docs: %+v, %v", name, len(png), kept, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	all := newCrowd(t, many, 2*time.Second)
	few := all
	if many == manySessions {
		few = newCrowd(t, 10, time.Second)
	}
	take("console-few.png", few, "", "light", 1000, 760)
	take("console.png", all, "", "light", 1120, 960)
	take("console-phone.png", all, "", "dark", phoneWidth, phoneHeight)
}
