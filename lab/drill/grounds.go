package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"rollcall/client"
	"rollcall/lab/chroot"
)

const (
	// home is the node below which drills keep all that they make.
	home = "/rollcall-drills"
	// lockPath is the ephemeral node of the process that drills.
	lockPath = home + "/lock"
	// groundsPrefix begins the chroots of all runs.
	groundsPrefix = home + "/run-"
	// lockTimeout is the timeout of the session that has the lock: as long as servers allow by default.
	lockTimeout = 40 * time.Second
	// connectLimit bounds the wait for a session and for the lock. An election takes seconds.
	connectLimit = time.Minute
	// cleanLimit bounds the removal of a chroot, with 100,000 ephemeral nodes and 1 M others.
	cleanLimit = 2 * time.Minute
)

// testGrounds are the part of the tree that a run may use, and its lock. One process at a time has them.
type testGrounds struct {
	keeper  *client.Client
	chroots []string
}

// takeGrounds takes the lock of an ensemble, within connectLimit.
func takeGrounds(ctx context.Context, servers string) (*testGrounds, error) {
	ctx, stop := context.WithTimeout(ctx, connectLimit)
	defer stop()
	keeper, err := client.Dial(ctx, servers, client.Config{Timeout: lockTimeout, GiveUpAfter: client.NeverGiveUp})
	if err != nil {
		return nil, connectError(ctx, servers, err)
	}
	g := &testGrounds{keeper: keeper}
	if err := g.createLock(ctx); err != nil {
		err = connectError(ctx, servers, err)
		if keeper.Close(ctx) != nil {
			keeper.Abandon()
		}
		return nil, err
	}
	return g, nil
}

// connectError names the ensemble that did not reply within connectLimit, and returns other errors as they are.
func connectError(ctx context.Context, servers string, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("no session and lock at %.200s within %v: %w. Check that these are addresses for clients, and that a majority of the members runs",
		servers, connectLimit, err)
}

// createLock creates the lock's node.
func (g *testGrounds) createLock(ctx context.Context) error {
	if err := g.keeper.CreateAll(ctx, home, client.Container); err != nil && !errors.Is(err, client.ErrNodeExists) {
		return err
	}
	host, _ := os.Hostname() // a name that is unknown is left out
	owner := fmt.Sprintf("process %d on %s, since %s", os.Getpid(), host, time.Now().Format(time.RFC3339))
	_, _, err := g.keeper.Create(ctx, lockPath, []byte(owner), client.Ephemeral)
	if !errors.Is(err, client.ErrNodeExists) {
		return err
	}
	other, stat, err := g.keeper.Get(ctx, lockPath)
	if id, _ := g.keeper.Session(); err == nil && stat.Owner == id {
		return nil
	}
	return fmt.Errorf("another drill runs on this ensemble: %s has %.200q. Wait until it has ended; after a crash its session expires within %v",
		lockPath, other, lockTimeout)
}

// isHeld returns an error if the lock may be another process's by now.
func (g *testGrounds) isHeld() error {
	if !g.keeper.State().State.IsFinal() {
		return nil
	}
	return errors.New("the session that had the lock of the drills has expired: another process may drill this ensemble")
}

// newChroot makes a chroot for a drill.
func (g *testGrounds) newChroot(ctx context.Context, name string) (string, error) {
	root := groundsPrefix + name
	if err := g.keeper.CreateAll(ctx, root, client.Container); err != nil {
		return "", err
	}
	g.chroots = append(g.chroots, root)
	return root, nil
}

// removeChroots removes the chroots of this run. Those that it cannot remove stay in g.chroots.
func (g *testGrounds) removeChroots(ctx context.Context) error {
	var errs []error
	g.chroots = slices.DeleteFunc(g.chroots, func(root string) bool {
		err := chroot.Remove(ctx, g.keeper, root, cleanLimit)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s is not removed: %w", root, err))
		}
		return err == nil
	})
	return errors.Join(errs...)
}

// listLeftovers returns the chroots that earlier runs have left.
func (g *testGrounds) listLeftovers(ctx context.Context) (roots []string, err error) {
	names, _, err := g.keeper.Children(ctx, home)
	for _, name := range names {
		if root := path.Join(home, name); strings.HasPrefix(root, groundsPrefix) {
			roots = append(roots, root)
		}
	}
	return roots, err
}

// RemoveLeftovers removes the chroots that earlier runs have left in an ensemble. It returns the paths of those that it has
// removed, and an error about the others. It returns an error while another process drills the ensemble. It takes
// connectLimit twice and cleanLimit at most.
func RemoveLeftovers(ctx context.Context, servers string) (removed []string, err error) {
	g, err := takeGrounds(ctx, servers)
	if err != nil {
		return nil, err
	}
	listed, stop := context.WithTimeout(ctx, connectLimit)
	defer stop()
	found, err := g.listLeftovers(listed)
	g.chroots = slices.Clone(found)
	err = errors.Join(err, g.removeAll(context.WithoutCancel(ctx)))
	return slices.DeleteFunc(found, func(root string) bool { return slices.Contains(g.chroots, root) }), err
}

// removeAll clears the grounds, removes home if it is empty, and gives up the lock.
func (g *testGrounds) removeAll(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, cleanLimit)
	defer stop()
	err := g.removeChroots(ctx)
	if held := g.keeper.Delete(ctx, lockPath, client.AnyVersion); held != nil && !errors.Is(held, client.ErrNoNode) {
		err = errors.Join(err, held)
	}
	if last := g.keeper.Delete(ctx, home, client.AnyVersion); last != nil && !errors.Is(last, client.ErrNoNode) && !errors.Is(last, client.ErrNotEmpty) {
		err = errors.Join(err, last)
	}
	if closed := g.keeper.Close(ctx); closed != nil {
		g.keeper.Abandon()
	}
	return err
}
