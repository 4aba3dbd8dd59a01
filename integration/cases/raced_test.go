//go:build race

package cases

// raced reports whether the race detector runs: cases take ten times as long then.
const raced = true
