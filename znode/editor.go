package znode

import (
	"slices"
	"sync/atomic"
)

// treeEditor changes the nodes of a tree, and can undo its changes since reserveUndo.
type treeEditor struct {
	tree        *tree
	gen         *atomic.Uint64
	recordsUndo bool
	undoSteps   []undoStep // oldest first
}

// undoStep reverses one change of the tree. Exactly one field is set.
type undoStep struct {
	linkedNode   *node
	unlinkedNode *node
	nodeBefore   node // without its children, which other steps restore
}

func (e *treeEditor) recordUndo(step undoStep) {
	if !step.nodeBefore.sharesExtra() {
		f := *step.nodeBefore.nodeExtra
		step.nodeBefore.nodeExtra = &f
	}
	e.undoSteps = append(e.undoSteps, step)
}

// beginEdit is tree.beginEdit with an undo step.
func (e *treeEditor) beginEdit(n *node) *node {
	n = e.tree.beginEdit(e.gen.Load(), n)
	if e.recordsUndo {
		e.recordUndo(undoStep{nodeBefore: *n})
	}
	return n
}

// linkAndEditParent is tree.linkNode with an undo step. The parent's hash is subtracted, so that the caller can change
// the parent and then call addHash.
func (e *treeEditor) linkAndEditParent(n *node) (parent *node) {
	parent = e.tree.linkNode(n.gen, n)
	if e.recordsUndo {
		e.recordUndo(undoStep{linkedNode: n})
		e.recordUndo(undoStep{nodeBefore: *parent})
	}
	e.tree.subtractHash(parent)
	return parent
}

// unlinkAndEditParent is tree.unlinkNode with an undo step. The parent's hash is subtracted, as in linkNode.
func (e *treeEditor) unlinkAndEditParent(n *node) (parent *node) {
	parent = e.tree.unlinkNode(e.gen.Load(), n)
	if e.recordsUndo {
		e.recordUndo(undoStep{unlinkedNode: n})
		e.recordUndo(undoStep{nodeBefore: *parent})
	}
	e.tree.subtractHash(parent)
	return parent
}

func (e *treeEditor) rollBack() {
	gen := e.gen.Load()
	for _, step := range slices.Backward(e.undoSteps) {
		switch {
		case step.linkedNode != nil:
			e.tree.unlinkNode(gen, step.linkedNode)
		case step.unlinkedNode != nil:
			e.tree.linkNode(gen, step.unlinkedNode)
		default:
			n := e.tree.beginEdit(gen, e.tree.nodeAt(step.nodeBefore.path))
			e.tree.addToDataSize(n, step.nodeBefore.data.len()-n.data.len())
			e.tree.changeAndReindex(gen, n, func() {
				step.nodeBefore.gen = n.gen
				if !n.sharesExtra() {
					step.nodeBefore.ensureOwnExtra().children = n.children
				}
				*n = step.nodeBefore
			})
			e.tree.addHash(n)
		}
	}
}

// reserveUndo drops earlier undo steps and reserves room for those of so many operations. Steps are recorded while
// recordsUndo is set.
func (e *treeEditor) reserveUndo(operations int) {
	if cap(e.undoSteps) > keptMultiOps {
		e.undoSteps = nil
	}
	e.undoSteps = slices.Grow(e.undoSteps[:0], operations)
}

// discardUndo drops the undo steps, and records none until the next reserveUndo.
func (e *treeEditor) discardUndo() {
	e.recordsUndo = false
	clear(e.undoSteps)
	e.undoSteps = e.undoSteps[:0]
}
