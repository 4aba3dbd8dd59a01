//go:build !race

package server

// slowness is how many times as long as otherwise this build may take.
const slowness = 1
