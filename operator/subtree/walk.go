package subtree

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"rollcall/zk/jute"
)

const (
	// maxFetches bounds the concurrent requests.
	maxFetches = 32
	// maxAhead bounds the nodes that are prefetched in the order of the walk.
	maxAhead = 256
	// maxAheadBytes bounds the prefetched data. Above it, only the next node is fetched.
	maxAheadBytes = 16 << 20
)

// Node is a node that a walk visits.
type Node struct {
	Path        string // in the space
	Depth       int    // below the top of the walk, which has 0
	IsLastChild bool   // no child of the same parent comes after it
	Stat        jute.Stat
	Data        []byte     // if the walk reads data
	ACL         []jute.ACL // if the walk reads lists
	// Err wraps jute.NoAuth if the node is unreadable. Then its other fields are unset, and its subtree is not
	// visited.
	Err error
}

// WalkOptions select the nodes that a walk visits, and their content. The zero value visits all nodes and
// reads their Stats.
type WalkOptions struct {
	ReadContent bool // reads data and access control lists, too
	MaxDepth    int  // visits so many levels below the top; 0: all
	// leaves out nodes and all below them; nil: none. It is called from several goroutines
	Skip func(path string) bool
}

// ServersNode is the parent of the servers' own nodes. Commands on a whole tree leave it out.
const ServersNode = "/zookeeper"

// IsServersNode reports whether path is the servers' node, which commands on a whole tree leave out unless
// they start there.
func (s Space) IsServersNode(path string) bool { return s.Root == "" && path == ServersNode }

// Walk visits the subtree at top: parents before children, and children by the bytes of their names. A node
// that vanishes meanwhile is left out. Reads are retried on a broken connection.
//
// If the walk fails, the last pair has the error: ctx's, jute.NoNode if there is no top, or the NodeClient's. All
// requests have ended when Walk returns.
func (s Space) Walk(ctx context.Context, top string, how WalkOptions) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		w := &walker{space: s, ctx: ctx, options: how, yield: yield, fetchSlots: make(chan struct{}, maxFetches)}
		defer w.fetches.Wait()
		defer cancel()
		w.visitNode(&pendingNode{node: Node{Path: top, IsLastChild: true}})
	}
}

// walker is one walk. Its fields belong to the walking goroutine, unless they are safe for concurrent use.
type walker struct {
	space      Space
	ctx        context.Context
	options    WalkOptions
	yield      func(*Node, error) bool
	ancestors  []*pendingNode // the nodes above the one that is visited
	fetchSlots chan struct{}
	heldBytes  atomic.Int64 // bytes of data that wait for their turn
	fetches    sync.WaitGroup
}

// pendingNode is a known node of the walk. A fetch fills it and closes fetched.
type pendingNode struct {
	node           Node
	err            error
	fetched        chan struct{}  // nil: no request was sent
	unopenedNames  []string       // of children that have no spot yet, in order
	openedChildren []*pendingNode // children with a spot that are not visited yet, in order
}

func (s *pendingNode) isFetched() bool {
	if s.fetched == nil {
		return false
	}
	select {
	case <-s.fetched:
		return true
	default:
		return false
	}
}

// childAt returns the i-th unvisited child, or nil.
func (s *pendingNode) childAt(i int) *pendingNode {
	if i == len(s.openedChildren) {
		if len(s.unopenedNames) == 0 {
			return nil
		}
		child := &pendingNode{node: Node{
			Path: joinPath(s.node.Path, s.unopenedNames[0]), Depth: s.node.Depth + 1,
			IsLastChild: len(s.unopenedNames) == 1,
		}}
		s.unopenedNames = s.unopenedNames[1:]
		s.openedChildren = append(s.openedChildren, child)
	}
	return s.openedChildren[i]
}

// visitNode yields a node and its subtree. It returns false if the walk is over.
func (w *walker) visitNode(s *pendingNode) bool {
	if s.fetched == nil {
		w.startFetch(s, func() {})
	}
	<-s.fetched
	w.heldBytes.Add(-int64(len(s.node.Data)))
	switch {
	case s.node.Depth > 0 && errors.Is(s.err, jute.NoNode):
		return true
	case s.err != nil:
		w.yield(nil, s.err)
		return false
	}
	w.ancestors = append(w.ancestors, s)
	w.fetchAhead()
	more := w.yield(&s.node, nil)
	s.node.Data, s.node.ACL = nil, nil
	for more {
		child := s.childAt(0)
		if child == nil {
			break
		}
		s.openedChildren[0] = nil
		s.openedChildren = s.openedChildren[1:]
		more = w.visitNode(child)
	}
	w.ancestors[len(w.ancestors)-1] = nil
	w.ancestors = w.ancestors[:len(w.ancestors)-1]
	return more
}

// fetchAhead prefetches the next nodes in the walk's order.
func (w *walker) fetchAhead() {
	left := maxAhead
	for _, s := range slices.Backward(w.ancestors) {
		if left = w.fetchBelow(s, left); left == 0 {
			return
		}
	}
}

// fetchBelow prefetches at most left nodes below s in the walk's order, and returns the remaining number, or
// 0 if no request slot is free.
func (w *walker) fetchBelow(s *pendingNode, left int) int {
	for i := 0; left > 0; i++ {
		child := s.childAt(i)
		if child == nil {
			break
		}
		left--
		switch {
		case child.isFetched():
			left = w.fetchBelow(child, left)
		case child.fetched == nil && !w.tryFetch(child):
			return 0
		}
	}
	return left
}

// tryFetch starts a fetch unless the limits are reached.
func (w *walker) tryFetch(s *pendingNode) bool {
	if w.heldBytes.Load() >= maxAheadBytes {
		return false
	}
	select {
	case w.fetchSlots <- struct{}{}:
	default:
		return false
	}
	w.startFetch(s, func() { <-w.fetchSlots })
	return true
}

func (w *walker) startFetch(s *pendingNode, done func()) {
	s.fetched = make(chan struct{})
	w.fetches.Go(func() {
		w.fetchNode(s)
		w.heldBytes.Add(int64(len(s.node.Data)))
		done()
		close(s.fetched)
	})
}

func (w *walker) fetchNode(s *pendingNode) {
	switch {
	case w.options.ReadContent:
		s.err = w.fetchContent(s)
	case w.options.MaxDepth > 0 && s.node.Depth == w.options.MaxDepth:
		s.node.Stat, s.err = w.space.Stat(w.ctx, s.node.Path)
	default:
		s.unopenedNames, s.node.Stat, s.err = w.space.Children(w.ctx, s.node.Path)
	}
	if errors.Is(s.err, jute.NoAuth) {
		s.node.Err, s.err = s.err, nil
		s.node.Data, s.unopenedNames = nil, nil
	}
	if w.options.Skip != nil {
		s.unopenedNames = slices.DeleteFunc(s.unopenedNames,
			func(name string) bool { return w.options.Skip(joinPath(s.node.Path, name)) })
	}
	slices.Sort(s.unopenedNames)
}

func (w *walker) fetchContent(s *pendingNode) (err error) {
	n := &s.node
	if n.Data, n.Stat, err = w.space.Get(w.ctx, n.Path); err != nil {
		return err
	}
	if n.ACL, err = w.space.ACL(w.ctx, n.Path); err != nil {
		return err
	}
	if n.Stat.NumChildren > 0 && (w.options.MaxDepth == 0 || n.Depth < w.options.MaxDepth) {
		s.unopenedNames, _, err = w.space.Children(w.ctx, n.Path)
	}
	return err
}
