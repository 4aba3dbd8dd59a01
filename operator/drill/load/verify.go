package load

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"rollcall/client"
	"rollcall/operator/drill/judge"
	"rollcall/operator/drill/result"
)

// verify reads all keys and lists all created nodes from each member, after a sync. Evidence.Unread has the members
// that cannot be reached within two timeouts.
func (l *Load) verify() {
	ctx, cancel := context.WithTimeout(l.final, 2*l.cfg.Timeout)
	defer cancel()
	var all sync.WaitGroup
	for _, m := range l.cfg.Servers {
		all.Go(func() {
			err := l.verifyMember(ctx, m)
			l.rec.mu.Lock()
			defer l.rec.mu.Unlock()
			if err != nil {
				l.rec.e.Unread = append(l.rec.e.Unread, fmt.Sprintf("member %s: %v", m.Name, err))
			}
		})
	}
	all.Wait()
	slices.Sort(l.rec.e.Unread)
}

func (l *Load) verifyMember(ctx context.Context, m result.Member) error {
	shown, err := l.read(ctx, m)
	if err != nil {
		return err
	}
	l.rec.existed(shown.ephemerals, shown.sent)
	l.rec.mu.Lock()
	defer l.rec.mu.Unlock()
	l.rec.e.Listings = append(l.rec.e.Listings, shown.listing)
	for k, f := range shown.finals {
		k.Finals = append(k.Finals, f)
	}
	return nil
}

// shown is the load's nodes as a member shows them.
type shown struct {
	listing    judge.Listing
	finals     map[*judge.Key]judge.Final
	ephemerals []string      // the names of the ephemeral nodes of holders
	sent       result.Millis // when the sync was sent
}

// read reads all keys from a member, and lists all created nodes, after a sync.
func (l *Load) read(ctx context.Context, m result.Member) (s shown, err error) {
	c, err := client.Dial(ctx, m.Clients, client.Config{ // without the chroot, which an earlier state may lack
		Timeout: l.cfg.Timeout, TLS: l.cfg.TLS, DialConn: l.cfg.DialConn, Clock: l.cfg.Clock,
	})
	if err != nil {
		return s, err
	}
	defer func() { _ = c.Close(ctx) }()
	sent := l.rec.now()
	if err := c.Sync(ctx); err != nil {
		return s, err
	}
	s = shown{judge.Listing{Member: m.Name, At: l.rec.now()}, map[*judge.Key]judge.Final{}, nil, sent}
	s.ephemerals, _, err = c.Children(ctx, l.cfg.Chroot+holdFolder)
	if err != nil && !isNoNode(err) {
		return s, err
	}
	l.mu.Lock()
	folders := l.folders
	l.mu.Unlock()
	for _, folder := range folders {
		names, _, err := c.Children(ctx, l.cfg.Chroot+folder)
		if err != nil && !isNoNode(err) { // an earlier state may lack a folder
			return s, err
		}
		s.listing.Names = append(s.listing.Names, names...)
	}
	for _, k := range slices.Concat(l.probed, l.shared) {
		data, stat, err := c.Get(ctx, l.cfg.Chroot+k.Path)
		if err != nil && !isNoNode(err) {
			return s, err
		}
		s.finals[k] = judge.Final{
			Member: m.Name, At: l.rec.now(), Value: parseValue(data), Version: stat.Version, Missing: err != nil,
		}
	}
	return s, nil
}

// ReadCopy reads the nodes of the load from a member that got its state as a copy: c says of what kind, and when the
// copy was made; To is 0 if it goes on until now. The member need not be one of Config.Servers. What it shows is judged with the rest.
func (l *Load) ReadCopy(ctx context.Context, m result.Member, c judge.Copy) error {
	read, err := l.read(ctx, m)
	if err != nil {
		return fmt.Errorf("load: member %s, which got a copy of the state: %w", m.Name, err)
	}
	c.Listing = read.listing
	for _, k := range slices.Concat(l.probed, l.shared) {
		c.Keys = append(c.Keys, judge.CopiedKey{Path: k.Path, Final: read.finals[k]})
	}
	l.rec.mu.Lock()
	defer l.rec.mu.Unlock()
	if c.To == 0 {
		c.To = l.rec.now()
	}
	l.rec.e.Copies = append(l.rec.e.Copies, c)
	return nil
}
