package proxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/lab/chroot"
)

// Ensemble provides what one run of the program talks to.
type Ensemble interface {
	// Fresh returns servers on which the program finds an empty tree. Runs may be at the same time, and see nothing of
	// each other. It blocks until the servers serve or ctx ends.
	Fresh(ctx context.Context) (Servers, error)
	// Describe names the ensemble in reports.
	Describe() string
}

// Servers are the servers of one run.
type Servers struct {
	Addresses []string // host:port of each; at least one
	Chroot    string   // the program works below this path; "": it has the whole tree
	// Dial connects to an address of the network "tcp". If it is nil, that is by a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Close ends what Fresh has begun. It is called once, after the program has ended.
	Close func(ctx context.Context) error
	// Outlive means that the servers keep running after Close, so sessions that the program leaves must be ended.
	Outlive bool
}

func (s Servers) dialServer(ctx context.Context, address string) (net.Conn, error) {
	if s.Dial != nil {
		return s.Dial(ctx, "tcp", address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// Existing is an ensemble that runs already. Each run of the program works below a node of its own, which is removed
// afterwards.
type Existing struct {
	Addresses []string
	Base      string // the nodes are made below this path; "": below the root
	// WholeTree means that the program cannot take a chroot. Then runs see what earlier ones have left, unless the
	// program itself removes it.
	WholeTree bool
	// Dial connects to an address of the network "tcp". If it is nil, that is by a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// chrootPrefix begins the names of the nodes below which programs work.
const chrootPrefix = "/rollcall-proxy-"

// chrootForm matches the names that Fresh makes. Strangers may make others, and a user may run what RemoveLine returns.
var chrootForm = regexp.MustCompile("^" + chrootPrefix + "[a-z2-7]{26}$")

// manageTimeout is the session timeout of the client that makes and removes chroots. It also limits each wait for replies.
const manageTimeout = 10 * time.Second

// Describe implements Ensemble.
func (e Existing) Describe() string { return strings.Join(e.Addresses, ",") + e.Base }

// Fresh implements Ensemble.
func (e Existing) Fresh(ctx context.Context) (Servers, error) {
	servers := Servers{Addresses: e.Addresses, Chroot: e.Base, Dial: e.Dial, Outlive: true, Close: func(context.Context) error { return nil }}
	if e.WholeTree {
		return servers, nil
	}
	servers.Chroot = e.Base + chrootPrefix + strings.ToLower(rand.Text())
	servers.Close = func(ctx context.Context) error { return e.removeNode(ctx, servers.Chroot) }
	err := e.withClient(ctx, func(ctx context.Context, c *client.Client) error {
		return withinLimit(ctx, func(ctx context.Context) error {
			_, _, err := c.Create(ctx, servers.Chroot, nil, client.Persistent)
			return err
		})
	})
	if err == nil {
		return servers, nil
	}
	if client.MayHaveHappened(err) {
		err = errors.Join(err, closeServers(ctx, servers))
	}
	return Servers{}, fmt.Errorf("make %s on %s: %w", servers.Chroot, e.Describe(), err)
}

// removeNode removes the node of a run, and all below it.
func (e Existing) removeNode(ctx context.Context, path string) error {
	err := e.withClient(ctx, func(ctx context.Context, c *client.Client) error { return chroot.Remove(ctx, c, path, manageTimeout) })
	if err != nil {
		return fmt.Errorf("remove %s: %w; %s removes it", path, err, e.RemoveLine(path))
	}
	return nil
}

// RemoveLine returns the command line that removes the node of a survey.
func (e Existing) RemoveLine(path string) string {
	return "rollcall rm -r --hosts=" + strings.Join(e.Addresses, ",") + " " + path
}

// Leftovers returns the nodes of other surveys, in order. They run now, or were killed. It returns none if this process
// may not list the nodes.
func (e Existing) Leftovers(ctx context.Context) (paths []string, err error) {
	if e.WholeTree {
		return nil, nil
	}
	err = e.withClient(ctx, func(ctx context.Context, c *client.Client) error {
		var names []string
		err := withinLimit(ctx, func(ctx context.Context) (err error) {
			names, _, err = c.Children(ctx, cmp.Or(e.Base, "/"))
			return err
		})
		for _, name := range names {
			if path := "/" + name; chrootForm.MatchString(path) {
				paths = append(paths, e.Base+path)
			}
		}
		if errors.Is(err, client.ErrNoAuth) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the nodes on %s: %w", e.Describe(), err)
	}
	slices.Sort(paths)
	return paths, nil
}

// withClient calls do with a client of the ensemble.
func (e Existing) withClient(ctx context.Context, do func(context.Context, *client.Client) error) error {
	cfg := client.Config{Timeout: manageTimeout}
	if e.Dial != nil {
		cfg.DialConn = e.Dial
	}
	var c *client.Client
	err := withinLimit(ctx, func(ctx context.Context) (err error) {
		c, err = client.Dial(ctx, strings.Join(e.Addresses, ","), cfg)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { _ = withinLimit(context.WithoutCancel(ctx), c.Close) }() // if it fails, the session expires
	return do(ctx, c)
}

// withinLimit calls do, which waits for manageTimeout at most.
func withinLimit(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, manageTimeout)
	defer cancel()
	return do(ctx)
}
