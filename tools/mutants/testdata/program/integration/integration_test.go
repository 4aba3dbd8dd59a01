package integration

import (
	"testing"

	"program/shop"
)

// Neither the tests of shop nor those of till notice a between that adds.
func TestMiddle(t *testing.T) {
	if n := shop.Middle(2, 10); n != 6 {
		t.Errorf("the middle of 2 and 10 is %d", n)
	}
}
