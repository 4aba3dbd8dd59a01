package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
)

// The tools that open sessions say at once that the port of --hosts is one for HTTP, and what to write.
func TestToolsAtWrongPort(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) // bench sets it
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	addr := web.Listener.Addr().String()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for name, args := range map[string][]string{
		"bench": {"bench", "--hosts", addr, "get"},
		"drill": {"drill", "--hosts", addr, "--yes", "leader-kill"},
		"proxy": {"proxy", "--hosts", addr, "--", "true"},
	} {
		err := runCommand(t.Context(), args, nil, io.Discard, io.Discard)
		if want := name + ": " + addr + " is a port for HTTP: --hosts takes a port for clients, such as 127.0.0.1:2181"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
