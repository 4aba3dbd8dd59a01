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
	// maxFetches is how many nodes are asked for at once.
	maxFetches = 32
	// maxAhead is how far nodes are asked for before their turn comes: the next so many in order, as far as
	// they are known.
	maxAhead = 256
	// maxAheadBytes is how many bytes of data may wait for their turn. Above it, only the next node is asked
	// for.
	maxAheadBytes = 16 << 20
)

// Node is a node that a walk visits.
type Node struct {
	Path  string // in the space
	Depth int    // below the top of the walk, which has 0
	Last  bool   // no child of the same parent comes after it
	Stat  jute.Stat
	Data  []byte     // if the walk reads data
	ACL   []jute.ACL // if the walk reads lists
	// Err is jute.NoAuth if the caller may not read the node; then nothing else of it is known, and nothing
	// below it is visited. Otherwise it is nil.
	Err error
}

// Walking says what a walk visits and reads. The zero value visits all nodes and reads their Stats.
type Walking struct {
	Whole  bool                   // reads data and access control lists, too
	Levels int                    // visits so many levels below the top; 0: all
	Skip   func(path string) bool // leaves out nodes and all below them; nil: none. It is called from several goroutines
}

// Servers is the node below which the servers keep their own nodes. Space.Own tells them from others.
const Servers = "/zookeeper"

// Own reports whether path is a node of the servers, which commands on a whole tree leave out unless they
// begin there.
func (s Space) Own(path string) bool { return s.Root == "" && path == Servers }

// Walk visits the subtree at top: a node before its children, and children in the order of their names'
// bytes. A node that vanishes meanwhile is left out. Reads that a broken connection interrupts are
// repeated.
//
// The last pair has an error if the walk cannot go on: ctx's, jute.NoNode if there is no top, or the
// client's. All requests have ended when Walk returns.
func (s Space) Walk(ctx context.Context, top string, how Walking) iter.Seq2[*Node, error] {
	return func(yield func(*Node, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		w := &walker{space: s, ctx: ctx, how: how, yield: yield, slots: make(chan struct{}, maxFetches)}
		defer w.fetches.Wait()
		defer cancel()
		w.visit(&spot{node: Node{Path: top, Last: true}})
	}
}

// walker is one walk. Its fields belong to the goroutine that walks, except for those that are safe for
// concurrent use.
type walker struct {
	space   Space
	ctx     context.Context
	how     Walking
	yield   func(*Node, error) bool
	way     []*spot // the nodes above the one that is visited
	slots   chan struct{}
	held    atomic.Int64 // bytes of data that wait for their turn
	fetches sync.WaitGroup
}

// spot is a node that the walk knows of. A fetch fills it, and closes fetched.
type spot struct {
	node    Node
	err     error
	fetched chan struct{} // nil: it has not been asked for
	names   []string      // of children that have no spot yet, in order
	ahead   []*spot       // children with a spot that are not visited yet, in order
}

// isFetched reports whether a spot is filled, without waiting.
func (s *spot) isFetched() bool {
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

// next returns the spot of the i-th child that is not visited yet, or nil if there are not so many.
func (s *spot) next(i int) *spot {
	if i == len(s.ahead) {
		if len(s.names) == 0 {
			return nil
		}
		child := &spot{node: Node{Path: join(s.node.Path, s.names[0]), Depth: s.node.Depth + 1, Last: len(s.names) == 1}}
		s.names = s.names[1:]
		s.ahead = append(s.ahead, child)
	}
	return s.ahead[i]
}

// visit yields a node and all below it. It returns false if the walk is over.
func (w *walker) visit(s *spot) bool {
	if s.fetched == nil {
		w.start(s, func() {})
	}
	<-s.fetched
	w.held.Add(-int64(len(s.node.Data)))
	switch {
	case s.node.Depth > 0 && errors.Is(s.err, jute.NoNode):
		return true
	case s.err != nil:
		w.yield(nil, s.err)
		return false
	}
	w.way = append(w.way, s)
	w.lookAhead()
	more := w.yield(&s.node, nil)
	s.node.Data, s.node.ACL = nil, nil
	for more {
		child := s.next(0)
		if child == nil {
			break
		}
		s.ahead[0] = nil
		s.ahead = s.ahead[1:]
		more = w.visit(child)
	}
	w.way[len(w.way)-1] = nil
	w.way = w.way[:len(w.way)-1]
	return more
}

// lookAhead asks for the nodes whose turn comes next.
func (w *walker) lookAhead() {
	left := maxAhead
	for _, s := range slices.Backward(w.way) {
		if left = w.askBelow(s, left); left == 0 {
			return
		}
	}
}

// askBelow asks for at most so many nodes below s, in the order in which they are visited, and returns how
// many are left. That is 0 if there is no room for another request.
func (w *walker) askBelow(s *spot, left int) int {
	for i := 0; left > 0; i++ {
		child := s.next(i)
		if child == nil {
			break
		}
		left--
		switch {
		case child.isFetched():
			left = w.askBelow(child, left)
		case child.fetched == nil && !w.ask(child):
			return 0
		}
	}
	return left
}

// ask starts a fetch, and reports whether there is room for it.
func (w *walker) ask(s *spot) bool {
	if w.held.Load() >= maxAheadBytes {
		return false
	}
	select {
	case w.slots <- struct{}{}:
	default:
		return false
	}
	w.start(s, func() { <-w.slots })
	return true
}

func (w *walker) start(s *spot, done func()) {
	s.fetched = make(chan struct{})
	w.fetches.Go(func() {
		w.fetch(s)
		w.held.Add(int64(len(s.node.Data)))
		done()
		close(s.fetched)
	})
}

// fetch asks for one node.
func (w *walker) fetch(s *spot) {
	switch {
	case w.how.Whole:
		s.err = w.fetchWhole(s)
	case w.how.Levels > 0 && s.node.Depth == w.how.Levels:
		s.node.Stat, s.err = w.space.Stat(w.ctx, s.node.Path)
	default:
		s.names, s.node.Stat, s.err = w.space.Children(w.ctx, s.node.Path)
	}
	if errors.Is(s.err, jute.NoAuth) {
		s.node.Err, s.err = jute.NoAuth, nil
		s.node.Data, s.names = nil, nil
	}
	if w.how.Skip != nil {
		s.names = slices.DeleteFunc(s.names, func(name string) bool { return w.how.Skip(join(s.node.Path, name)) })
	}
	slices.Sort(s.names)
}

func (w *walker) fetchWhole(s *spot) (err error) {
	n := &s.node
	if n.Data, n.Stat, err = w.space.Get(w.ctx, n.Path); err != nil {
		return err
	}
	if n.ACL, err = w.space.ACL(w.ctx, n.Path); err != nil {
		return err
	}
	if n.Stat.NumChildren > 0 && (w.how.Levels == 0 || n.Depth < w.how.Levels) {
		s.names, _, err = w.space.Children(w.ctx, n.Path)
	}
	return err
}
