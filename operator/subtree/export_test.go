package subtree

import "context"

// The tests with a member are in a package of their own, because package member imports this one. This is what they use of its insides.

const (
	MaxAhead   = maxAhead
	MaxBatch   = maxBatchNodes
	MaxDeletes = maxDeletes
	MaxTries   = maxTries
	NoDigests  = reasonHiddenDigests
	NoRead     = reasonUnreadable
)

var (
	ComparePaths = comparePaths
	Document     = document
	FormatACL    = formatACL
	Join         = joinPath
	PlainNode    = plainNode
)

func (s Space) DeleteAll(ctx context.Context, paths []string, errs []error) error {
	return s.deleteAll(ctx, paths, errs)
}
