//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/lab/target"
)

// TestMain lets this binary stand in for Rollcall.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		fmt.Println(serveAsMember(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serveAsMember replies to srvr as the member of a zoo.cfg. It returns an error if it cannot, or if the file has the
// line fails=yes.
func serveAsMember(config string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	if strings.Contains(string(text), "fails=yes") {
		return errors.New("it fails as it should")
	}
	address, mode := "", "follower"
	if filepath.Base(filepath.Dir(config)) == "1" {
		mode = "leader"
	}
	for line := range strings.Lines(string(text)) {
		if ip, ok := strings.CutPrefix(strings.TrimSpace(line), "clientPortAddress="); ok {
			address = ip + ":2181"
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, make([]byte, 4)); err == nil {
			_, _ = fmt.Fprintf(conn, "Zookeeper version: 1\nMode: %s\n", mode)
		}
		_ = conn.Close()
	}
}

// standIns returns the settings of a command line for stand-ins.
func standIns(t *testing.T, args ...string) settings {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseFlags(append([]string{"--directory", t.TempDir(), "--binary", self}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The commands of a script are done, each has a reply, and the table describes the commands.
func TestCommands(t *testing.T) {
	s := standIns(t, "--voters", "1", "--observers", "1", "--line", "x=y", "--line", "z=1")
	commands, ended := make(chan string), make(chan error)
	in, out := io.Pipe()
	go func() { ended <- s.run(t.Context(), commands, out) }()
	reply := func() (text string) {
		t.Helper()
		line := make([]byte, 2000)
		n, err := in.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		return string(line[:n])
	}
	wantOK := func(what string) {
		t.Helper()
		var seconds float64
		if text := reply(); !strings.HasSuffix(text, "\n") || !scans(text, "ok %f\n", &seconds) || seconds < 0 {
			t.Errorf("%s: %q", what, text)
		}
	}
	table := func() (rows [][]string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(s.directory, "members"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
		}
		return rows
	}
	wantOK("the start")
	first := table()
	for i, row := range first {
		text, err := os.ReadFile(filepath.Join(row[5], "zoo.cfg"))
		if err != nil || !strings.Contains(string(text), "tickTime=2000\n") || !strings.Contains(string(text), "x=y\nz=1\n") ||
			strings.Contains(string(text), "ecret") {
			t.Errorf("zoo.cfg of member %d: %v\n%s", i+1, err, text)
		}
		if len(row) != 6 || row[0] != fmt.Sprint(i+1) || row[1] == "0" || !strings.HasSuffix(row[2], ":2181") || row[3]+row[4] != "" {
			t.Errorf("member %d: %q", i+1, row)
		}
	}
	commands <- "await"
	wantOK("await")
	commands <- "kill 2"
	wantOK("kill")
	if rows := table(); len(rows) != 2 || rows[1][1] != "0" || rows[0][1] != first[0][1] {
		t.Errorf("after kill: %q", rows)
	}
	commands <- "await"
	if text := reply(); text != "failed member 2 is down\n" {
		t.Errorf("await of a member that is down: %q", text)
	}
	commands <- "start 2 a=b"
	wantOK("start")
	before := table()[1][1]
	commands <- "launch 2 a=b"
	wantOK("launch")
	if now := table()[1][1]; now == "0" || now == before {
		t.Errorf("launch: the process was %s and is %s", before, now)
	}
	commands <- "await"
	wantOK("await after launch")
	rows := table()
	if text, _ := os.ReadFile(filepath.Join(rows[1][5], "zoo.cfg")); rows[1][1] == "0" ||
		!bytes.Contains(text, []byte("\na=b\n")) || bytes.Contains(text, []byte("x=y")) {
		t.Errorf("after start: %q\n%s", rows, text)
	}
	for _, command := range []string{"", "kill", "kill 1 2", "start", "stop 1", "await 1", "kill 3", "start 3", "start 2 fails=yes"} {
		commands <- command
		if text := reply(); !strings.HasPrefix(text, "failed ") || strings.Count(text, "\n") != 1 {
			t.Errorf("%q: %q", command, text)
		}
	}
	commands <- "stop"
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(s.directory); err != nil || len(left) != 2 { // the journal, and the table
		t.Errorf("left: %v, %v", left, err)
	}
}

// scans reports whether text has a format.
func scans(text, format string, values ...any) bool {
	n, err := fmt.Sscanf(text, format, values...)
	return err == nil && n == len(values)
}

// It ends with its input, and at a signal. If the members do not start, it prints the reason.
func TestEnds(t *testing.T) {
	s := standIns(t, "--voters", "1")
	if err := s.run(t.Context(), readLines(strings.NewReader("await\nkill 1\n")), io.Discard); err != nil {
		t.Errorf("at the end of the input: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	go func() {
		_, _ = in.Read(make([]byte, 100))
		stop()
	}()
	if err := s.run(ctx, nil, out); err != nil {
		t.Errorf("at a signal: %v", err)
	}
	s = standIns(t, "--line", "fails=yes")
	if err := s.run(t.Context(), nil, io.Discard); err == nil || !strings.Contains(err.Error(), "it fails as it should") {
		t.Errorf("members that fail: %v", err)
	}
	s = standIns(t, "--voters", "1", "--place", "rollcall-none=127.0.0.1:3000")
	if err := s.run(t.Context(), nil, io.Discard); err == nil || !strings.Contains(err.Error(), "rollcall-none") {
		t.Errorf("a namespace that is not there: %v", err)
	}
}

// A command line that is wrong gets an error that names the flag.
func TestFlags(t *testing.T) {
	s := standIns(t, "--proof", "certificates", "--tls", "--admin", "--java", "-Xms1g", "--java", "-Xmx1g", "--program", "zookeeper", "--place", "a=10.47.0.1:3000")
	if s.Proof != target.ByCertificates || !s.Secure || s.NoAdmin || fmt.Sprint(s.Java) != "[-Xms1g -Xmx1g]" ||
		s.Program != target.ZooKeeper || s.places[0].Namespace != "a" || s.Size != 3 {
		t.Errorf("%+v", s)
	}
	if s = standIns(t); s.Proof != target.Unproven || s.Secure || !s.NoAdmin || s.Java != nil ||
		s.Program != target.Rollcall || s.places != nil {
		t.Errorf("without flags: %+v", s)
	}
	for args, want := range map[string]string{
		"":                        "--directory is missing",
		"--directory x y":         `"y": it takes no arguments`,
		"--proof some":            "none, secret or certificates",
		"--place a":               "a namespace, =, an IP address, and a port from 1 to 65531",
		"--place =10.47.0.1:1":    "a namespace, =, an IP address",
		"--place a=b:1":           "a namespace, =, an IP address",
		"--place a=1.2.3.4:0":     "a namespace, =, an IP address",
		"--place a=1.2.3.4:65532": "a namespace, =, an IP address",
		"--directory x --other":   "-other",
		"--memory 63":             "whole number of MiB, 64 at least",
		"--memory 1g":             "whole number of MiB",
	} {
		if _, err := parseFlags(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
	var help bytes.Buffer
	if _, err := parseFlags([]string{"-h"}, &help); err == nil || !strings.Contains(help.String(), "-voters number") {
		t.Errorf("%v: %s", err, help.String())
	}
}
