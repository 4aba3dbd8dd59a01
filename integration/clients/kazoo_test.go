package clients

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

const python = "/usr/bin/python3" // Debian's Python, which has Debian's kazoo

// Scenarios of kazoo, each a function of that name in python/kazoo_client.py.
func TestKazoo(t *testing.T) {
	needs.Check(t, needs.Kazoo)
	for _, name := range []string{"session", "lock", "election", "counter", "data-watch", "children-watch", "transaction", "words"} {
		t.Run(name, func(t *testing.T) {
			play(t, "kazoo-"+name, nil, func(ctx context.Context, s *stage, at seat) error {
				return kazoo(ctx, s, at, name)
			})
		})
	}
}

// kazoo runs the client of one seat and lets it wait for the others.
func kazoo(ctx context.Context, s *stage, at seat, scenario string) error {
	return s.follow(ctx, "kazoo "+at.name, exec.Command(python, append([]string{"-B", "python/kazoo_client.py"}, s.argumentsOf(at, scenario)...)...))
}

// argumentsOf returns the arguments with which a client program runs a scenario at a seat.
func (s *stage) argumentsOf(at seat, scenario string) []string {
	kind := "stays"
	if at.moves {
		kind = "moves"
	}
	return []string{scenario, s.root, at.name, strings.Join(s.names(), ","), strings.Join(at.hosts, ","), kind}
}

// follow runs the client program of one seat. The program prints each step that it reaches, and continues when the
// others have reached it, too.
func (s *stage) follow(ctx context.Context, name string, cmd *exec.Cmd) error {
	meet := func() error { return s.meet(ctx) }
	return obey(ctx, name, cmd, map[string]func() error{
		"ready":       meet,
		"ready fault": func() error { return s.disturb(ctx) },
		"ok":          meet,
	})
}

// obey runs a client program that prints each thing that it waits for on a line, and gets a line when that has been
// done. After "ok" it must exit with status 0.
func obey(ctx context.Context, name string, cmd *exec.Cmd, do map[string]func() error) error {
	d, err := talk(name, cmd)
	if err != nil {
		return err
	}
	defer d.stop()
	for {
		word, err := d.next(ctx)
		if err != nil {
			return err
		}
		act, ok := do[word]
		if !ok {
			continue // a line of its log
		}
		if err := act(); err != nil {
			return fmt.Errorf("%w\n%s", err, d.out.text())
		}
		if err := d.say("go"); err != nil {
			return err
		}
		if word == "ok" {
			return d.wantStatus(ctx, 0)
		}
	}
}
