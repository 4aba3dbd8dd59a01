package contender

import (
	"errors"
	"fmt"
	"strings"

	"rollcall/client"
)

// ErrForeignContenders is the reason of a *ForeignError.
var ErrForeignContenders = errors.New("the parent has children that are not contenders of its layout")

// ErrNumbersUsedUp means that the servers have assigned all sequence numbers of a parent: it has had 2^31 contenders
// since it was created. The next ones would sort before the holder of the right.
var ErrNumbersUsedUp = client.ErrNumbersUsedUp

// ErrRemoved means that another client deleted the contender's node while it waited for its turn.
var ErrRemoved = errors.New("another client deleted the contender's node")

// ForeignError means that a parent has children that are not contenders of the layout. Either their creators do not
// respect the contenders, or the contenders do not respect them: two clients could hold the same right.
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
	return fmt.Sprintf("%s: %v: %s. Its layout is %v. Use another parent, or the layout of those nodes; "+
		"delete them if nothing uses them", e.Parent, ErrForeignContenders, named, e.Layout)
}

// Unwrap returns ErrForeignContenders.
func (e *ForeignError) Unwrap() error { return ErrForeignContenders }

// numbersUsedUp returns an error for ErrNumbersUsedUp that names the parent.
func numbersUsedUp(parent string) error {
	return fmt.Errorf("%s: %w. Delete the parent when it is empty: the numbers then begin at 0 again", parent,
		ErrNumbersUsedUp)
}
