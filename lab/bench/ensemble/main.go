// Command ensemble runs the ensemble that a script of lab/bench measures. Its members are on loopback, or in network namespaces that
// exist already, and they end with this process.
//
// The file members in its directory has one line per member, with tabs between these columns. A column can be empty.
//
//	id         from 1
//	pid        process id; 0 if the member is down
//	clients    address for clients
//	secure     address for clients over TLS
//	admin      URL of the HTTP API
//	home       directory of the member, with its zoo.cfg, log and data
//
// The directory above the homes has the administrators' token, and in client the certificates of TLS clients.
//
// It writes "ok SECONDS" to its standard output when all members serve, with the duration of the start. Then it reads commands from
// its standard input, one per line. It updates the table and replies "ok SECONDS" or "failed REASON" to each. At the end of its input
// it kills the members and removes their files.
//
//	kill I           kills member I with SIGKILL
//	launch I LINE... starts member I, which is killed first if it runs. The lines replace those of --line
//	start I LINE...  does the same, and waits until all serve
//	await            waits until all serve
//	stop             ends as the end of the input does, without a reply
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rollcall/lab/target"
)

// usageStatus is the exit status of a command line that is wrong, as of rollcall.
const usageStatus = 2

// lastPort leaves room for the four further ports of a member.
const lastPort = 65535 - 4

// tick is the tickTime of most ensembles.
const tick = 2 * time.Second

func main() {
	s, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ensemble:", err)
		os.Exit(usageStatus)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err = s.run(ctx, readLines(os.Stdin), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ensemble:", err)
		os.Exit(1)
	}
}

// settings are parsed from the command line.
type settings struct {
	target.ProcessConfig
	directory string
	places    []target.Place
}

// proofs are the values of --proof.
var proofs = map[string]target.Proof{"none": target.Unproven, "secret": target.BySecret, "certificates": target.ByCertificates}

// parseFlags returns the settings in a command line, or an error that names the flag that is wrong.
func parseFlags(args []string, stderr io.Writer) (s settings, err error) {
	s.Tick, s.Proof, s.NoAdmin, s.Sessions = tick, target.Unproven, true, true
	flags := flag.NewFlagSet("ensemble", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	flags.Usage = func() {
		flags.SetOutput(stderr)
		fmt.Fprint(stderr, "usage: ensemble --directory DIRECTORY [flags]\n\nRuns an ensemble until its standard input ends. The comment at the top of its source has the commands that it takes there.\n\nFlags:\n")
		flags.PrintDefaults()
	}
	flags.StringVar(&s.directory, "directory", "", "`directory` for all files, on the disk to be measured")
	flags.StringVar((*string)(&s.Program), "program", string(target.Rollcall), "`what` the members run: rollcall, zookeeper or floor")
	flags.StringVar(&s.Binary, "binary", "", "`path` of Rollcall's binary, or of the floor's; on ZooKeeper Rollcall's makes the certificates")
	flags.IntVar(&s.Size, "voters", 3, fmt.Sprintf("`number` of voters, 1 to %d", target.MaxSize))
	flags.IntVar(&s.Observers, "observers", 0, fmt.Sprintf("`number` of observers beside them, up to %d", target.MaxSize))
	flags.BoolVar(&s.Secure, "tls", false, "clients connect over TLS, too")
	flags.Func("java", "`option` of Java for ZooKeeper, which can be repeated", func(option string) error {
		s.Java = append(s.Java, option)
		return nil
	})
	flags.Func("line", "further `line` of zoo.cfg, which can be repeated", func(line string) error {
		s.Lines += line + "\n"
		return nil
	})
	flags.Func("memory", "`MiB` of memory that each member may have, which needs root and cgroups (default: no limit)", func(text string) error {
		mib, err := strconv.ParseInt(text, 10, 32)
		if err != nil || mib<<20 < target.MinMemory {
			return fmt.Errorf("must be a whole number of MiB, %d at least", target.MinMemory>>20)
		}
		s.Memory = mib << 20
		return nil
	})
	flags.BoolFunc("admin", "Rollcall's members serve operators", func(string) error {
		s.NoAdmin = false
		return nil
	})
	flags.Func("proof", "`what` Rollcall's members prove themselves with: none, secret or certificates (default none)", func(name string) (err error) {
		var known bool
		if s.Proof, known = proofs[name]; !known {
			err = errors.New("must be none, secret or certificates")
		}
		return err
	})
	flags.Func("place", "network `namespace=ip:port` of the next member, once for each; the four ports after it are the member's, too", func(text string) error {
		namespace, address, _ := strings.Cut(text, "=")
		parsed, err := netip.ParseAddrPort(address)
		if err != nil || namespace == "" || parsed.Port() == 0 || parsed.Port() > lastPort {
			return fmt.Errorf("must be a namespace, =, an IP address, and a port from 1 to %d", lastPort)
		}
		s.places = append(s.places, target.Place{Namespace: namespace, Address: parsed})
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	switch {
	case flags.NArg() > 0:
		return s, fmt.Errorf("%q: it takes no arguments", flags.Arg(0))
	case s.directory == "":
		return s, errors.New("--directory is missing: name one on the disk to be measured")
	}
	return s, nil
}

// readLines sends the lines of a file, and closes the channel at the end. Nothing interrupts its read, so the end of the process ends it.
func readLines(in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// run starts the ensemble, and does commands until there are no more or ctx ends. Its replies go to out.
func (s *settings) run(ctx context.Context, commands <-chan string, out io.Writer) (err error) {
	s.Dir = s.directory
	journal, err := target.OpenJournal(filepath.Join(s.directory, "journal"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	s.Journal = journal
	began := time.Now()
	members, err := s.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, members.Close(context.WithoutCancel(ctx))) }()
	e := ensemble{members, filepath.Join(s.directory, "members")}
	if err := errors.Join(e.writeTable(), reply(out, began, nil)); err != nil {
		return err
	}
	for {
		select {
		case command, ok := <-commands:
			if !ok || command == "stop" {
				return nil
			}
			began := time.Now()
			err := e.do(ctx, strings.Fields(command))
			if err := errors.Join(e.writeTable(), reply(out, began, err)); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *settings) start(ctx context.Context) (*target.Processes, error) {
	if s.places != nil {
		return target.NewPlaced(ctx, s.ProcessConfig, s.places)
	}
	return target.NewProcesses(ctx, s.ProcessConfig)
}

// reply writes the reply to a command that began at a time.
func reply(out io.Writer, began time.Time, failed error) error {
	text := fmt.Sprintf("ok %.3f", time.Since(began).Seconds())
	if failed != nil {
		text = "failed " + strings.ReplaceAll(failed.Error(), "\n", "; ")
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// ensemble takes commands.
type ensemble struct {
	members *target.Processes
	table   string // the path of the table
}

// do does a command. An error leaves the ensemble usable.
func (e *ensemble) do(ctx context.Context, words []string) error {
	switch {
	case len(words) == 1 && words[0] == "await":
		return e.members.AwaitServing(ctx)
	case len(words) == 2 && words[0] == "kill":
		return e.members.Kill(ctx, words[1])
	case len(words) >= 2 && (words[0] == "launch" || words[0] == "start"):
		var lines strings.Builder
		for _, line := range words[2:] {
			lines.WriteString(line + "\n")
		}
		if err := e.members.SetLines(lines.String()); err != nil {
			return err
		}
		if err := e.members.Restart(ctx, words[1]); err != nil || words[0] == "launch" {
			return err
		}
		return e.members.AwaitServing(ctx)
	}
	return fmt.Errorf("%.200q must be await, stop, kill I, launch I LINE... or start I LINE..., where I is a member", strings.Join(words, " "))
}

// writeTable writes the table of the members.
func (e *ensemble) writeTable() error {
	var b strings.Builder
	for _, m := range e.members.Members() {
		fmt.Fprintln(&b, strings.Join([]string{
			m.Name, fmt.Sprint(e.members.Pid(m.Name)), m.Clients, m.Secure, m.Admin, e.members.Dir(m.Name),
		}, "\t"))
	}
	return os.WriteFile(e.table, []byte(b.String()), 0o600)
}
