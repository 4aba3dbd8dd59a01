package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// reachTimeout limits the connection attempt. A lost packet is sent again after one second, and once more
// after three.
const reachTimeout = 5 * time.Second

// checkReachable returns an error that names every server if none accepts a connection. Without it, a run
// would wait for its first session until that times out.
func (r *caseRun) checkReachable() error {
	ctx, stop := context.WithTimeout(r.ctx, reachTimeout)
	defer stop()
	var asking errgroup.Group
	failed := make([]error, len(r.target.Servers))
	for i, addr := range r.target.Servers {
		asking.Go(func() error {
			conn, err := r.dialServer(ctx, addr)
			if err != nil {
				failed[i] = err
				return nil
			}
			stop() // one is enough
			return conn.Close()
		})
	}
	_ = asking.Wait() // an error of Close does not matter
	var said []string
	for i, err := range failed {
		if err == nil {
			return nil
		}
		said = append(said, fmt.Sprintf("%s: %v", r.target.Servers[i], err))
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("no server takes connections (%s); start the servers first, or name the ports where they take "+
		"clients", strings.Join(said, "; "))
}
