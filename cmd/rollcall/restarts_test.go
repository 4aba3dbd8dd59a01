package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/cli"
	"rollcall/config"
	"rollcall/follower"
	"rollcall/member"
	"rollcall/operator/logs"
	"rollcall/quorum"
	"rollcall/quorum/wire"
)

// A member starts again in the process after errors that a start corrects, but not more often than the bound
// within its window, not after other errors, and not once the process was told to end.
func TestMemberStartsAgain(t *testing.T) {
	added, snapshot := fmt.Errorf("member: %w", follower.ErrAddedAgain), fmt.Errorf("quorum: %w", wire.ErrRestart)
	broken := errors.New("input/output error")
	loop := func(lasts time.Duration, n int) (all []memberRun) {
		for range n {
			all = append(all, memberRun{lasts, snapshot})
		}
		return all
	}
	for _, tt := range []struct {
		name string
		runs []memberRun
		stop time.Duration // when the process is told to end; 0: never
		want int           // runs
		err  error         // of the last one
	}{
		{"added again", []memberRun{{time.Hour, added}, {time.Hour, nil}}, 0, 2, nil},
		{"a snapshot came twice", []memberRun{{time.Second, snapshot}, {time.Hour, broken}}, 0, 2, broken},
		{"another error", []memberRun{{time.Hour, broken}}, 0, 1, broken},
		{"raft still uses the disk", []memberRun{{time.Hour, errors.Join(snapshot, quorum.ErrNotEnded)}}, 0, 1, quorum.ErrNotEnded},
		{"told to end", []memberRun{{time.Hour, added}}, time.Minute, 1, follower.ErrAddedAgain},
		{"a loop", loop(time.Second, maxRestarts+1), 0, maxRestarts + 1, wire.ErrRestart},
		{"as often as the bound allows", append(loop(time.Second, maxRestarts), memberRun{time.Second, nil}), 0, maxRestarts + 1, nil},
		// The oldest of the starts in the window is forgotten at the very moment at which another one is due.
		{"now and then", append(loop(restartWindow/maxRestarts, 50), memberRun{time.Second, nil}), 0, 51, nil},
		{"a little more often", loop(restartWindow/maxRestarts-time.Second, 50), 0, maxRestarts + 1, wire.ErrRestart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.stop > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.stop)
					defer cancel()
				}
				got := 0
				var log strings.Builder
				err := runWithRestarts(ctx, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context) error {
					r := tt.runs[got]
					got++
					time.Sleep(r.lasts)
					return r.err
				}, func() []string { return nil })
				if got != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("%d runs, then %v; want %d, then %v", got, err, tt.want, tt.err)
				}
				if lines := strings.Count(log.String(), "this member starts again in the same process"); lines != got-1 {
					t.Errorf("%d lines in the log about %d starts:\n%s", lines, got-1, log.String())
				}
				if advice := addAdvice("serve", err); got > maxRestarts && err != nil && !strings.Contains(advice.Error(), fmt.Sprintf("again %d times within 10m0s, so it ends; start this member again", maxRestarts)) {
					t.Errorf("after too many starts: %v", advice)
				}
			})
		})
	}
}

// memberRun is the duration of a member's run, and its error.
type memberRun struct {
	lasts time.Duration
	err   error
}

// A later member in the process listens where the first one did, also if the system has chosen the ports.
func TestPortsStay(t *testing.T) {
	p := &memberProcess{cfg: config.Config{ClientAddr: "127.0.0.1:0"}, log: logs.New(io.Discard, logs.Settings{}, false)}
	p.cfg.HTTP.Addr = "127.0.0.1:0"
	var first []string
	for range 2 {
		settings, err := p.openListeners()
		closeListeners(settings)
		if err != nil {
			t.Fatal(err)
		}
		at := []string{listenerAddr(settings.ClientListener), listenerAddr(settings.OperatorListener)}
		if first == nil {
			first = at
		}
		if !slices.Equal(at, first) {
			t.Errorf("listens at %v, first at %v", at, first)
		}
	}
}

// A member does not start again in the process once the configuration has changed, because only another
// process reads it. A configuration that cannot be read would end that one, too.
func TestStartsAgainWithTheSameConfiguration(t *testing.T) {
	const base = "dataDir=DIR\nclientPort=2181\n"
	dir, at := inDir(t, map[string]string{"zoo.cfg": base})
	file := filepath.Join(dir, "zoo.cfg")
	added := fmt.Errorf("member: %w", follower.ErrAddedAgain)
	for _, tt := range []struct {
		text string
		runs int
		log  string
	}{
		{base, 2, "this member starts again in the same process"},
		{base + "logLevel=debug\n", 2, "this member starts again in the same process"},
		{base + "logLevel=loud\n", 2, "the configuration cannot be reloaded, so this member starts with the one before"},
		{base + "tickTime=500\nnosuch=1\n", 1, `so this process ends; start the member again with the new one" keys="nosuch, tickTime"`},
	} {
		var out strings.Builder
		var f memberFlags
		if err := os.WriteFile(file, []byte(at(base)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, log, err := f.loadConfigAndLog(cli.IOStreams{Err: &out}, []string{file})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(at(tt.text)), 0o600); err != nil {
			t.Fatal(err)
		}
		runs := 0
		err = runWithRestarts(t.Context(), log.Logger(), func(context.Context) error {
			if runs++; runs > 1 {
				return nil
			}
			return added
		}, func() []string { return f.findChangedKeys(cli.IOStreams{}, []string{file}, cfg, log) })
		if runs != tt.runs || errors.Is(err, added) != (runs == 1) || !strings.Contains(out.String(), tt.log) {
			t.Errorf("%q: %d runs, then %v; logged\n%s", tt.text, runs, err, out.String())
		}
	}
}

// While a start in the process hangs, the member is stalled for the watchdog, but not before the limit. Once
// the member is made, its own health counts.
func TestServingStartHangs(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	settings := config.Settings{Dir: t.TempDir(), Tick: 100 * time.Millisecond, MinTimeout: 400 * time.Millisecond, MaxTimeout: time.Minute}.WithDefaults()
	p := &memberProcess{log: logs.New(io.Discard, logs.Settings{}, false), systemd: newSystemdNotifier(cli.IOStreams{}), firstMade: make(chan struct{})}
	p.settings = member.Config{
		Settings: settings, ID: 1, Servers: []member.Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}, {ID: 2, GrpcAddr: "127.0.0.1:3", RaftAddr: "127.0.0.1:4"}},
		Network: member.Network{Listen: func(string) (net.Listener, error) {
			once.Do(func() { close(entered) })
			<-release
			return net.Listen("tcp", "127.0.0.1:0")
		}},
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.runMember(ctx) }()
	<-entered
	since := p.startingSince.Load()
	if since == nil {
		t.Fatal("it does not say since when it starts")
	}
	if text := p.startStallText(since.Add(startLimit - 1)); text != "" {
		t.Errorf("before the limit: %s", text)
	}
	long := since.Add(-startLimit)
	p.startingSince.Store(&long)
	if health := p.memberHealth(); !strings.Contains(health.Stalled, "its next start in this process has taken 5m0s") {
		t.Errorf("at the limit: %+v", health)
	}
	close(release)
	<-p.firstMade
	if health := p.memberHealth(); health.Stalled != "" {
		t.Errorf("when it is made: %+v", health)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
