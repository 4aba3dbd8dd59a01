package clients

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

const python = "/usr/bin/python3" // Debian's, which has Debian's kazoo

// Scenarios of kazoo, each a function of that name in kazoo_client.py.
func TestKazoo(t *testing.T) {
	requireClient(t, "/usr/lib/python3/dist-packages/kazoo/client.py", "python3-kazoo")
	for _, name := range []string{"session", "lock", "election", "counter", "data-watch", "children-watch", "transaction", "words"} {
		t.Run(name, func(t *testing.T) {
			play(t, "kazoo-"+name, nil, func(ctx context.Context, s *stage, at seat) error {
				return kazoo(ctx, s, at, name)
			})
		})
	}
}

// kazoo runs the client of one seat and lets it meet the others.
func kazoo(ctx context.Context, s *stage, at seat, scenario string) error {
	kind := "stays"
	if at.moves {
		kind = "moves"
	}
	d, err := talk("kazoo "+at.name, exec.Command(python, "-B", "kazoo_client.py", scenario, s.root,
		at.name, strings.Join(s.names(), ","), strings.Join(at.hosts, ","), kind))
	if err != nil {
		return err
	}
	defer d.end()
	for {
		word, err := d.next(ctx)
		if err != nil {
			return err
		}
		meet := s.meet
		switch word {
		case "ready fault":
			meet = s.disturb
		case "ready", "ok":
		default:
			continue // a line of a log
		}
		if err := meet(ctx); err != nil {
			return fmt.Errorf("%w\n%s", err, d.out.text())
		}
		if err := d.say("go"); err != nil {
			return err
		}
		if word == "ok" {
			break
		}
	}
	return d.wantStatus(ctx, 0)
}
