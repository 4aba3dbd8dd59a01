package contender

import (
	"errors"
	"fmt"
	"strings"

	"rollcall/client"
)

// ErrForeignContenders is the reason of a *ForeignError.
var ErrForeignContenders = errors.New("the parent has nodes that are no contenders of its layout")

// ErrNumbersUsedUp says that the servers have given all numbers of a parent: 2^31 contenders have been in it since it
// was created. The next ones would be sorted before those that hold the right.
var ErrNumbersUsedUp = client.ErrNumbersUsedUp

// ErrRemoved says that another client deleted the contender's node while it waited for its turn.
var ErrRemoved = errors.New("another client deleted the contender's node")

// ForeignError says that a parent has nodes that are no contenders of the layout. Their creators do not respect the
// contenders, or the contenders do not respect them: two could hold the same right.
type ForeignError struct {
	Parent string
	Names  []string // of the nodes, sorted
	Layout Layout
}

// maxNamesShown limits the names in the text of a ForeignError: a log line stays readable.
const maxNamesShown = 5

// Error implements error.
func (e *ForeignError) Error() string {
	named := strings.Join(e.Names[:min(len(e.Names), maxNamesShown)], ", ")
	if more := len(e.Names) - maxNamesShown; more > 0 {
		named = fmt.Sprintf("%s and %d more", named, more)
	}
	return fmt.Sprintf("%s: %v: %s. Its layout is %v. Use a parent of its own, or the layout of those nodes; "+
		"delete them if nothing uses them", e.Parent, ErrForeignContenders, named, e.Layout)
}

// Unwrap returns ErrForeignContenders.
func (e *ForeignError) Unwrap() error { return ErrForeignContenders }

// numbersUsedUp returns the error for a parent whose numbers are used up.
func numbersUsedUp(parent string) error {
	return fmt.Errorf("%s: %w. Delete the parent when it is empty: the numbers then begin at 0 again", parent,
		ErrNumbersUsedUp)
}
