package console

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// rollcall is the binary under test, built once per run.
var rollcall string

// browser is the context of the one browser that all tests use.
var browser context.Context

func TestMain(m *testing.M) {
	needs.Main(needs.Nightly, needs.Chromium)
	// The browser runs without its sandbox, because root has none. It sees the pages of this test alone.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox)
	ctx, free := chromedp.NewExecAllocator(context.Background(), options...)
	var end context.CancelFunc
	browser, end = chromedp.NewContext(ctx)
	status := process.Main(m, &rollcall, func(dir string) (string, error) {
		if err := chromedp.Do(browser); err != nil {
			return "", fmt.Errorf("the browser does not start: %w", err)
		}
		return process.Build(dir)
	})
	end()
	free()
	os.Exit(status)
}
