package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// listenError returns the error of serve if a port cannot be opened for this reason.
func listenError(reason error) error {
	return fmt.Errorf("serve: clients: %w", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", reason)})
}

// Every row in the table of advice matches an error that can end its commands. An error that has
// advice already gets no more.
func TestAdvice(t *testing.T) {
	missing := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere"}}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	readOnly := &fs.PathError{Op: "mkdir", Path: "/data", Err: syscall.EROFS}
	used := make(map[string]bool)
	for _, tt := range []struct {
		name, command string
		err           error
		want          string // part of the advice; "": there is none
	}{
		{"port in use", "serve", listenError(syscall.EADDRINUSE), "choose another port (clientPort"},
		{"port in use", "up", listenError(syscall.EADDRINUSE), "-port takes others"},
		{"another machine's address", "serve", listenError(syscall.EADDRNOTAVAIL), "no such address: correct clientPortAddress"},
		{"privileged port", "serve", listenError(syscall.EACCES), "choose one above 1023"},
		{"unknown host", "serve", missing, "write an IP address"},
		{"unknown host", "health", missing, "-addr host:port"},
		{"unknown host", "bench", missing, "where members take clients"},
		{"directory in use", "serve", fmt.Errorf("directory: %w", disk.ErrInUse), "stop the other process"},
		{"directory in use", "recover", fmt.Errorf("directory: %w", disk.ErrInUse), "stop the other process"},
		{"directory in use", "up", fmt.Errorf("directory: %w", disk.ErrInUse), "stop the other rollcall up"},
		{"other number of members", "up", fmt.Errorf("directory: %w", disk.ErrServersChanged), "--members and --port"},
		{"nothing to recover", "recover", fmt.Errorf("directory: %w", disk.ErrNoData), "of a member that has data"},
		{"directory read-only", "serve", disk.WithAdvice(fmt.Errorf("quorum: %w", readOnly), true), "dataDir and dataLogDir must be"},
		{"directory read-only", "up", readOnly, "-data must name"},
		{"disk that fails", "serve", fmt.Errorf("quorum: append: %w", &fs.PathError{Op: "write", Path: "/data/x.wal", Err: syscall.EIO}), "check the kernel's log"},
		{"snapshot", "serve", fmt.Errorf("%w: twice", wire.ErrRestart), "start this member again"},
		{"no member", "health", refused, "start the member with rollcall serve"},
		{"silent member", "health", fmt.Errorf("no answer: %w", os.ErrDeadlineExceeded), "its log says which"},
		{"no member", "bench", refused, "a running member takes clients"},
		{"has advice already", "serve", fmt.Errorf("x: %w", explainedError{readOnly}), ""},
		{"file of the data is missing", "serve", fmt.Errorf("%w: %w. The way out: ...", disk.ErrDamaged, &fs.PathError{Op: "open", Path: "/data/meta.json", Err: syscall.ENOENT}), ""},
		{"another file", "serve", fmt.Errorf("audit: %w; set audit.file", readOnly), ""},
		{"another file", "recover", fmt.Errorf("ensembleSecretFile: %w", readOnly), ""},
		{"nothing to do", "serve", errors.New("anything"), ""},
		{"another command's", "health", fmt.Errorf("%w", disk.ErrInUse), ""},
	} {
		err := addAdvice(tt.command, tt.err)
		text, found := strings.CutPrefix(err.Error(), tt.err.Error()+"; ")
		if found != (tt.want != "") || !strings.Contains(text, tt.want) || !errors.Is(err, tt.err) {
			t.Errorf("%s, %s: %v, want %q", tt.command, tt.name, err, tt.want)
		}
		used[text] = true
	}
	for _, a := range adviceTable {
		if !used[a.text] {
			t.Errorf("no case leads to the advice %q", a.text)
		}
	}
	if err := addAdvice("serve", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// The error that ends a command names a remedy. Each case runs a whole command line.
func TestCommandsAdvise(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().String()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(taken)
	_, free, _ := net.SplitHostPort(other.Addr().String())
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	ensemble := func(own string) string {
		return "dataDir=DIR\nclientPort=0\ninitLimit=5\nsyncLimit=2\nserver.1=" + own + "\nserver.2=127.0.0.1:1:2\nserver.3=127.0.0.1:3:4\n"
	}
	dir, at := inDir(t, map[string]string{
		"alone.cfg": "dataDir=DIR\nclientPort=0\n", "file": "", "file.cfg": "dataDir=DIR\ndataLogDir=DIR/file\nclientPort=0\n",
		"quorum.cfg": ensemble(taken + ":" + free), "election.cfg": ensemble("127.0.0.1:" + free + ":" + port), "myid": "1",
		"audit.cfg":  "dataDir=DIR\nclientPort=0\naudit.enable=true\naudit.file=DIR/none/audit.log\n",
		"secret.cfg": "dataDir=DIR\nclientPort=0\nensembleSecretFile=DIR/none\n", "token.cfg": "dataDir=DIR\nclientPort=0\nadmin.tokenFile=DIR/none\n",
		"key.cfg": "dataDir=DIR\nclientPort=0\nsecureClientPort=0\nssl.clientAuth=none\nssl.keyStore.location=DIR/none.pem\n",
	})
	for _, tt := range []struct{ name, args, want string }{
		{"no file", "serve DIR/none.cfg", "serve: open DIR/none.cfg: no such file or directory; name a zoo.cfg"},
		{"two files", "serve DIR/alone.cfg b", `unexpected argument "b"; it takes one zoo.cfg`},
		{"up with a file", "up zoo.cfg", `unexpected argument "zoo.cfg"; it takes flags only`},
		{"port for clients", "serve -client " + taken + " DIR/alone.cfg", "address already in use; another process listens there"},
		{"port for members", "serve DIR/quorum.cfg", "listen for members: listen tcp " + taken + ": bind: address already in use; another process"},
		{"port for the log", "serve DIR/election.cfg", "listen for the log: listen tcp " + taken + ": bind: address already in use; another process"},
		{"address", "serve -client 192.0.2.1:0 DIR/alone.cfg", "cannot assign requested address; this machine has no such address"},
		{"directory of the log", "serve DIR/file.cfg", "not a directory; dataDir and dataLogDir must be directories"},
		{"no directory for the audit log", "serve DIR/audit.cfg", "audit: open DIR/none/audit.log: no such file or directory; set audit.file to a path where this user may write, or audit.enable=false"},
		{"no secret", "serve DIR/secret.cfg", "ensembleSecretFile=DIR/none: no such file or directory; it must name a file that this user may read; make one with"},
		{"no token", "serve DIR/token.cfg", "admin.tokenFile=DIR/none: no such file or directory; it must name a file that this user may read"},
		{"no key", "serve DIR/key.cfg", "ssl.keyStore.location=DIR/none.pem: no such file or directory; it must name a file that this user may read"},
		{"recover without data", "recover -yes DIR/alone.cfg", "; run it with the zoo.cfg of a member that has data"},
		{"health of nobody", "health -addr 127.0.0.1:1", "connection refused; no process listens there"},
		{"health without a port", "health -addr localhost", "-addr localhost must be host:port"},
		{"up in a file", "up -port 60999 -members 1 -data DIR/file", "not a directory; --data must name a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := runCommand(t.Context(), strings.Fields(at(tt.args)), nil, io.Discard, io.Discard)
			if err == nil || !strings.Contains(err.Error(), at(tt.want)) || strings.Contains(err.Error(), "dataDir and") != strings.Contains(tt.want, "dataDir and") {
				t.Errorf("%s: %v\nwant %s", tt.args, err, at(tt.want))
			}
		})
	}
	if found, err := filepath.Glob(filepath.Join(dir, "rollcall", "*.db")); err != nil || len(found) > 0 {
		t.Errorf("a command that failed left the files %v, %v", found, err)
	}
}

// The errors that end a command are printed as one line, which begins with the cause.
func TestLastLine(t *testing.T) {
	cause := errors.New("serve: the disk is full")
	err := fmt.Errorf("%w", errors.Join(cause, errors.New("raft did not stop in time"), errors.New("close: bad file")))
	const want = "serve: the disk is full; after that: raft did not stop in time; after that: close: bad file"
	if got := errorLine(err); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
