package client

import (
	"context"
	"errors"
	"fmt"
)

// ErrNumbersUsedUp says that a parent has given all numbers of its sequential names. They end at 2147483647, unless the
// servers of Rollcall are configured to go on (longSequentialNames), and begin at 0 in another parent. Under another
// prefix, the servers may give 2147483647 again, and no error.
var ErrNumbersUsedUp = errors.New("all numbers of sequential names below the parent are used up")

// lastNumber ends the last sequential name below a parent.
const lastNumber = "2147483647"

// explainTaken returns the error of a sequential create that failed with ErrNodeExists. The next number may be taken for
// two reasons: it is the last one, or a client has created a node of that name without the mode. If a node of the last name
// is there, the error is ErrNumbersUsedUp, although numbers may be left: a client may have created that node without the
// mode, or the node may be older than the servers' longSequentialNames.
func explainTaken(ctx context.Context, c *Client, path string, taken error) error {
	_, exists, err := c.Exists(ctx, path+lastNumber)
	if failed, ok := errors.AsType[*Error](taken); ok && (exists || errors.Is(err, ErrNoAuth)) {
		return &Error{Op: failed.Op, Path: failed.Path, Err: fmt.Errorf("%w: %w", ErrNumbersUsedUp, failed.Err)}
	}
	return taken
}
