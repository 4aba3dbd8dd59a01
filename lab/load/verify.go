package load

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"rollcall/client"
	"rollcall/lab/judge"
	"rollcall/lab/result"
)

// verifyMembers reads all keys and lists all created nodes from each member, after a sync. Evidence.Unread has the members
// that cannot be reached within two timeouts.
func (l *Load) verifyMembers() {
	ctx, cancel := context.WithTimeout(l.final, 2*l.cfg.Timeout)
	defer cancel()
	var all sync.WaitGroup
	for _, m := range l.cfg.Servers {
		all.Go(func() {
			err := l.verifyMember(ctx, m)
			l.recorder.mu.Lock()
			defer l.recorder.mu.Unlock()
			if err != nil {
				l.recorder.evidence.Unread = append(l.recorder.evidence.Unread, fmt.Sprintf("member %s: %v", m.Name, err))
			}
		})
	}
	all.Wait()
	slices.Sort(l.recorder.evidence.Unread)
}

func (l *Load) verifyMember(ctx context.Context, m result.Member) error {
	shown, err := l.readNodes(ctx, m)
	if err != nil {
		return err
	}
	l.recorder.noteExisting(shown.ephemerals, shown.sent)
	l.recorder.mu.Lock()
	defer l.recorder.mu.Unlock()
	l.recorder.evidence.Listings = append(l.recorder.evidence.Listings, shown.listing)
	for k, f := range shown.finals {
		k.Finals = append(k.Finals, f)
	}
	return nil
}

// memberView is the load's nodes as a member shows them.
type memberView struct {
	listing    judge.Listing
	finals     map[*judge.Key]judge.Final
	ephemerals []string      // the names of the ephemeral nodes of holders
	sent       result.Millis // when the sync was sent
}

// readNodes reads all keys from a member, and lists all created nodes, after a sync.
func (l *Load) readNodes(ctx context.Context, m result.Member) (s memberView, err error) {
	c, err := client.Dial(ctx, m.Clients, client.Config{ // without the chroot, which an earlier state may lack
		Timeout: l.cfg.Timeout, TLS: l.cfg.TLS, DialConn: l.cfg.DialConn, Clock: l.cfg.Clock,
	})
	if err != nil {
		return s, err
	}
	defer func() { _ = c.Close(ctx) }()
	sent := l.recorder.sinceStartMillis()
	if err := c.Sync(ctx); err != nil {
		return s, err
	}
	s = memberView{judge.Listing{Member: m.Name, At: l.recorder.sinceStartMillis()}, map[*judge.Key]judge.Final{}, nil, sent}
	s.ephemerals, _, err = c.Children(ctx, l.cfg.Chroot+sessionsParent)
	if err != nil && !isNoNode(err) {
		return s, err
	}
	l.mu.Lock()
	parents := l.createdParents
	l.mu.Unlock()
	for _, parent := range parents {
		names, _, err := c.Children(ctx, l.cfg.Chroot+parent)
		if err != nil && !isNoNode(err) { // an earlier state may lack a parent
			return s, err
		}
		s.listing.Names = append(s.listing.Names, names...)
	}
	for _, k := range slices.Concat(l.probedKeys, l.sharedKeys) {
		data, stat, err := c.Get(ctx, l.cfg.Chroot+k.Path)
		if err != nil && !isNoNode(err) {
			return s, err
		}
		s.finals[k] = judge.Final{
			Member: m.Name, At: l.recorder.sinceStartMillis(), Value: parseValue(data), Version: stat.Version, Missing: err != nil,
		}
	}
	return s, nil
}

// ReadCopy reads the nodes of the load from a member that got its state as a copy: c says of what kind, and when the
// copy was made; To is 0 if it lasts until now. The member need not be one of Config.Servers. What it shows is judged
// with the rest.
func (l *Load) ReadCopy(ctx context.Context, m result.Member, c judge.Copy) error {
	read, err := l.readNodes(ctx, m)
	if err != nil {
		return fmt.Errorf("load: member %s, which got a copy of the state: %w", m.Name, err)
	}
	c.Listing = read.listing
	for _, k := range slices.Concat(l.probedKeys, l.sharedKeys) {
		c.Keys = append(c.Keys, judge.CopiedKey{Path: k.Path, Final: read.finals[k]})
	}
	l.recorder.mu.Lock()
	defer l.recorder.mu.Unlock()
	if c.To == 0 {
		c.To = l.recorder.sinceStartMillis()
	}
	l.recorder.evidence.Copies = append(l.recorder.evidence.Copies, c)
	return nil
}
