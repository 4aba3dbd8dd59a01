package process

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Setting returns the number in an environment variable, or otherwise if the variable is not set. A
// number below least fails the test, because a test that does nothing passes.
func Setting(t *testing.T, name string, least, otherwise int) int {
	t.Helper()
	n, err := parseSetting(name, least, otherwise)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// parseSetting does the same, and returns an error instead.
func parseSetting(name string, least, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, fmt.Errorf("%s=%q: want a number from %d on", name, text, least)
	}
	return n, nil
}
