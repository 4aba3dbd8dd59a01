package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"rollcall/cli"
	"rollcall/member"
	"rollcall/quorum/disk"
)

// advice is a row of the table of advice for errors that end a command. Packages config and quorum/disk give
// their own advice, because they know the wrong setting or file. A row must not match errors of files that
// other settings name.
type advice struct {
	commands string // with blanks between them
	matches  func(err error) bool
	text     string
}

// The first matching row of adviceTable counts.
var adviceTable = []advice{
	{
		"serve", matchesError(syscall.EADDRINUSE),
		"another process listens there: stop it, or choose another port (clientPort or secureClientPort for clients; for " +
			"members the server line, which is the same on all members)",
	},
	{"up test-server", matchesError(syscall.EADDRINUSE), "--port takes others"},
	{
		"serve", matchesError(syscall.EADDRNOTAVAIL),
		"this machine has no such address: correct clientPortAddress or this member's server line " +
			"(quorumListenOnAllIPs=true listens for members on all addresses)",
	},
	{
		"serve up test-server", matchesListenError(syscall.EACCES),
		"this user may not use that port: choose one above 1023",
	},
	{
		"serve", isUnknownHost,
		"this machine cannot resolve that host: correct clientPortAddress or this member's server line, or write an IP " +
			"address there",
	},
	{"up", matchesError(disk.ErrInUse), "stop the other rollcall up, or give this one a directory of its own with --data"},
	{
		"serve recover import export", matchesError(disk.ErrInUse),
		"stop the other process, or give each member a dataDir of its own",
	},
	{
		"up", matchesError(disk.ErrServersChanged),
		"for rollcall up: --members and --port must be as when the directory was made, or --data must name another directory",
	},
	{
		"recover", matchesError(disk.ErrNoData),
		"run it with the zoo.cfg of a member that has data; a member without data is started with rollcall serve",
	},
	{"up", isUnusableFile, "--data must name a directory that this user may make and write"},
	{
		"serve recover", matchesError(disk.ErrUnusable),
		"dataDir and dataLogDir must be directories that this user may make and write",
	},
	{
		"serve recover up", matchesError(syscall.EIO),
		"the disk cannot be read or written there: check the kernel's log, and replace it if it fails",
	},
	{"serve up", member.CanRestart, "start this member again: it continues"},

	{
		"health", matchesError(syscall.ECONNREFUSED),
		"no process listens there: start the member with rollcall serve, or name its address with --addr",
	},
	{
		"health", matchesError(os.ErrDeadlineExceeded),
		"the member is starting, hangs or is overloaded: its log says which; a port for TLS alone does not reply either",
	},
	{"health", isUnknownHost, "this machine cannot resolve that host: name an address with --addr host:port"},
	{
		"bench", matchesError(syscall.ECONNREFUSED),
		"no process listens there: each address must be one where a running member takes clients",
	},
	{"bench", isUnknownHost, "this machine cannot resolve that host: name addresses where members take clients"},
}

func matchesError(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// matchesListenError matches errors of opening a port.
func matchesListenError(target error) func(error) bool {
	return func(err error) bool {
		var op *net.OpError
		return errors.As(err, &op) && op.Op == "listen" && errors.Is(err, target)
	}
}

func isUnknownHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}

// isUnusableFile matches errors of files and directories that are not due to their content. All files of
// rollcall up are in its directory.
func isUnusableFile(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, disk.ErrDamaged) && slices.ContainsFunc(
		[]error{syscall.EACCES, syscall.EPERM, syscall.ENOTDIR, syscall.EROFS, syscall.ENOENT},
		func(reason error) bool { return errors.Is(path.Err, reason) })
}

// explainedError is an error that already names a remedy.
type explainedError struct{ error }

func (t explainedError) Unwrap() error { return t.error }

// addAdvice returns err, which ended command, with the advice of the first matching row.
func addAdvice(command string, err error) error {
	var already explainedError
	if err == nil || errors.As(err, &already) {
		return err
	}
	for _, a := range adviceTable {
		if slices.Contains(strings.Fields(a.commands), command) && a.matches(err) {
			return errorWithAdvice{err, a.text}
		}
	}
	return err
}

type errorWithAdvice struct {
	error
	text string
}

func (h errorWithAdvice) Error() string { return h.error.Error() + "; " + h.text }
func (h errorWithAdvice) Unwrap() error { return h.error }

// errorLine returns err as one line. The cause comes first, and consequences follow.
func errorLine(err error) string {
	return cli.EscapeUnprintable(strings.ReplaceAll(err.Error(), "\n", "; after that: "))
}
