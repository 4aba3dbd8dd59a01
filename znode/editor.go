package znode

import (
	"slices"
	"sync/atomic"
)

// editor changes the nodes of a tree, and can undo what it has changed since start.
type editor struct {
	tree      *tree
	gen       *atomic.Uint64
	recording bool
	steps     []undoStep // what undoes the changes, oldest first
}

// undoStep reverses one step of a change of the tree. Exactly one field is set.
type undoStep struct {
	linked   *node // this node was linked
	unlinked *node // this node was unlinked
	edited   node  // the node was like this; its children are restored by other steps
}

// record adds a step, if the change may have to be undone.
func (e *editor) record(step undoStep) {
	if !e.recording {
		return
	}
	if !step.edited.plain() {
		f := *step.edited.family
		step.edited.family = &f
	}
	e.steps = append(e.steps, step)
}

// edit is tree.edit, with a step to undo it.
func (e *editor) edit(path string) *node {
	n := e.tree.edit(e.gen.Load(), path)
	e.record(undoStep{edited: *n})
	return n
}

// link is tree.link. It returns the parent uncounted, so that the caller can change it and then count it.
func (e *editor) link(n *node) (parent *node) {
	parent = e.tree.link(n.gen, n)
	e.record(undoStep{linked: n})
	e.record(undoStep{edited: *parent})
	e.tree.uncount(parent)
	return parent
}

// unlink is tree.unlink, and returns the parent as link does.
func (e *editor) unlink(n *node) (parent *node) {
	parent = e.tree.unlink(e.gen.Load(), n)
	e.record(undoStep{unlinked: n})
	e.record(undoStep{edited: *parent})
	e.tree.uncount(parent)
	return parent
}

// rollBack undoes all recorded steps.
func (e *editor) rollBack() {
	gen := e.gen.Load()
	for _, step := range slices.Backward(e.steps) {
		switch {
		case step.linked != nil:
			e.tree.unlink(gen, step.linked)
		case step.unlinked != nil:
			e.tree.link(gen, step.unlinked)
		default:
			n := e.tree.edit(gen, step.edited.path)
			e.tree.resize(n, step.edited.data.len()-n.data.len())
			e.tree.recast(gen, n, func() {
				step.edited.gen = n.gen
				if !n.plain() {
					step.edited.found().children = n.children
				}
				*n = step.edited
			})
			e.tree.count(n)
		}
	}
}

// start begins to record, with room for the steps of so many operations.
func (e *editor) start(operations int) {
	if cap(e.steps) > keepOps {
		e.steps = nil
	}
	e.steps = slices.Grow(e.steps[:0], operations)
}

// stop drops the steps, and records none until the next start.
func (e *editor) stop() {
	e.recording = false
	clear(e.steps)
	e.steps = e.steps[:0]
}
