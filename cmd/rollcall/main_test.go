package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// Help says what a command takes, beside its flags.
func TestCommandHelp(t *testing.T) {
	for command, want := range map[string]string{
		"up":      "rollcall up [flags]\n",
		"bench":   "rollcall bench [flags] CASE...\n",
		"serve":   "rollcall serve [flags] [zoo.cfg]\n",
		"health":  "rollcall health [flags] [zoo.cfg]\n",
		"recover": "rollcall recover [flags] [zoo.cfg]\n",
	} {
		t.Run(command, func(t *testing.T) {
			var stderr bytes.Buffer
			err := run(t.Context(), []string{command, "-h"}, nil, io.Discard, &stderr)
			if !errors.Is(err, flag.ErrHelp) || !strings.HasPrefix(stderr.String(), want) {
				t.Errorf("%v: %s", err, stderr.String())
			}
		})
	}
}

// A port that is taken is told with the way out.
func TestUpOnTakenPort(t *testing.T) {
	l, port, err := net.Listener(nil), 1<<16, error(nil)
	for port > 60000 { // up wants the ports 2,000 above, too
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		port = l.Addr().(*net.TCPAddr).Port
	}
	args := []string{"up", "-data", t.TempDir(), "-port", fmt.Sprint(port)}
	err = run(t.Context(), args, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "address already in use; -port takes others") {
		t.Errorf("%v", err)
	}
}
