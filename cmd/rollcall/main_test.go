package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/quorum/disk"
)

// The help of a command names its arguments as well as its flags.
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

// The error about a port that is in use says how to choose others.
func TestUpOnTakenPort(t *testing.T) {
	l, port, err := net.Listener(nil), 1<<16, error(nil)
	for port > 60000 { // up also needs the ports up to 2,000 above
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

// If a member's data folder belongs to another member, the error names the file that says so and
// the file that holds this member's number.
func TestServeInAnothersFolder(t *testing.T) {
	dir, at := inDir(t, map[string]string{"myid": "3", "zoo.cfg": "dataDir=DIR\nclientPort=2181\n"})
	own := filepath.Join(dir, "rollcall")
	identity := `{"format": 1, "member": 1, "servers": ["1=m1:3888"]}`
	if err := errors.Join(os.Mkdir(own, 0o700), os.WriteFile(filepath.Join(own, "identity.json"), []byte(identity), 0o600)); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"serve", "-client", "127.0.0.1:0", filepath.Join(dir, "zoo.cfg")}, nil, io.Discard, io.Discard)
	if !errors.Is(err, disk.ErrOtherMember) {
		t.Fatalf("%v, want ErrOtherMember", err)
	}
	for _, want := range []string{at("DIR/rollcall/identity.json is of member 1"), "this is member 3", at("is from DIR/myid")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
}
