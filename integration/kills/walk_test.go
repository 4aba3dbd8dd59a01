package kills

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// node is all that a client can see of one node.
type node struct {
	data     []byte
	stat     jute.Stat
	acl      string
	children []string
}

func (n node) equal(m node) bool {
	return bytes.Equal(n.data, m.data) && (n.data == nil) == (m.data == nil) && n.stat == m.stat && n.acl == m.acl &&
		slices.Equal(n.children, m.children)
}

func (n node) String() string {
	const enough = 64 // how many bytes of data to show
	return fmt.Sprintf("%+v data %q null %t acl %s children %d", n.stat, n.data[:min(len(n.data), enough)], n.data == nil, n.acl, len(n.children))
}

// tree is all nodes by path, except those below visits, whose sessions may expire at any time.
type tree map[string]node

// diff describes the first difference, by path, or returns "" if there is none.
func (a tree) diff(b tree) string {
	var paths []string
	for path := range a {
		paths = append(paths, path)
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	for _, path := range paths {
		n, ok := a[path]
		m, there := b[path]
		switch {
		case !ok:
			return fmt.Sprintf("%s: none, %v", path, m)
		case !there:
			return fmt.Sprintf("%s: %v, none", path, n)
		case !n.equal(m):
			return fmt.Sprintf("%s: %v, %v", path, n, m)
		}
	}
	return ""
}

// looked is the number of nodes that are read at a time. Their three requests each are fewer than a server accepts from
// one connection.
const looked = 40

// walk reads the whole tree of one member, in a session of its own, after a sync.
func walk(m *process.Member) (tree, error) {
	raw, err := net.DialTimeout("tcp", m.Clients, process.Patience)
	if err != nil {
		return nil, err
	}
	conn := wire.New(raw)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(process.Patience)); err != nil {
		return nil, err
	}
	if _, err := conn.Open(sessionTimeout); err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	r, _, err := conn.Call(1, jute.OpSync, &jute.SyncRequest{Path: []byte("/")})
	if err != nil || r.Err != jute.OK {
		return nil, fmt.Errorf("sync: %v, %w", r, err)
	}
	found := tree{}
	for paths := []string{"/"}; len(paths) > 0; {
		n := min(len(paths), looked)
		more, err := readNodes(conn, paths[:n], found)
		if err != nil {
			return nil, err
		}
		paths = append(paths[n:], more...)
	}
	_, _, err = conn.Call(2, jute.OpCloseSession, nil)
	return found, err
}

// readNodes reads some nodes and returns the paths of their children.
func readNodes(conn *wire.Conn, paths []string, found tree) (below []string, err error) {
	for _, path := range paths {
		p := []byte(path)
		if err := firstError(
			conn.Send(3, jute.OpGetData, &jute.GetDataRequest{Path: p}),
			conn.Send(3, jute.OpGetACL, &jute.GetACLRequest{Path: p}),
			conn.Send(3, jute.OpGetChildren2, &jute.GetChildrenRequest{Path: p}),
		); err != nil {
			return nil, err
		}
	}
	for _, path := range paths {
		var data jute.GetDataResponse
		var acl jute.GetACLResponse
		var children jute.GetChildren2Response
		for _, rec := range []wire.Readable{&data, &acl, &children} {
			r, err := conn.Recv()
			if err == nil && r.Err != jute.OK {
				err = r.Err
			}
			if err == nil {
				err = r.Into(rec)
			}
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", path, err)
			}
		}
		n := node{data: data.Data, stat: data.Stat, acl: aclText(acl.ACL)}
		for _, c := range children.Children {
			n.children = append(n.children, string(c))
		}
		if acl.Stat != n.stat || children.Stat != n.stat {
			return nil, fmt.Errorf("%s changes while nothing writes: %+v, %+v, %+v", path, n.stat, acl.Stat, children.Stat)
		}
		found[path] = n
		below = append(below, descend(path, n.children)...)
	}
	return below, nil
}

func aclText(list []jute.ACL) (text string) {
	for _, a := range list {
		text += fmt.Sprintf("%d %s:%s,", a.Perms, a.ID.Scheme, a.ID.ID)
	}
	return text
}

// descend returns the paths of children, except visits.
func descend(path string, children []string) (paths []string) {
	for _, c := range children {
		if child := path + "/" + c; path != "/" {
			paths = append(paths, child)
		} else if "/"+c != visits {
			paths = append(paths, "/"+c)
		}
	}
	return paths
}

// treeOf returns the tree that a client would see of a state.
func treeOf(s *znode.State) tree {
	s.RLock()
	defer s.RUnlock()
	found := tree{}
	for paths := []string{"/"}; len(paths) > 0; paths = paths[1:] {
		p := []byte(paths[0])
		data, stat, _ := s.GetData(p, nil, nil)
		acl, _, _ := s.GetACL(p, nil)
		names, _, _ := s.Children(p, nil, nil)
		children := slices.AppendSeq(make([]string, 0, names.Count()), names.All())
		found[paths[0]] = node{data: data, stat: stat, acl: aclText(acl), children: children}
		paths = append(paths, descend(paths[0], children)...)
	}
	return found
}

// rewalks is the number of times that a walk starts again because its connection was closed. A member that is caught up
// by a snapshot closes the connections of its clients, which connect again.
const rewalks = 5

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// walkAll walks all members at once, and compares their trees.
func walkAll(ctx context.Context, members []*process.Member) (tree, error) {
	type result struct {
		tree tree
		err  error
	}
	results := make([]chan result, len(members))
	for i, m := range members {
		results[i] = make(chan result, 1)
		go func() {
			found, err := walk(m)
			for n := 0; n < rewalks && hungUp(err); n++ {
				found, err = walk(m)
			}
			results[i] <- result{found, err}
		}()
	}
	var first tree
	for i, m := range members {
		select {
		case r := <-results[i]:
			if r.err != nil {
				return nil, fmt.Errorf("member %d: %w", m.ID, r.err)
			}
			if first == nil {
				first = r.tree
			} else if d := first.diff(r.tree); d != "" {
				return nil, fmt.Errorf("members %d and %d differ: %s", members[0].ID, m.ID, d)
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return first, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
