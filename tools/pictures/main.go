// Command pictures draws docs/pictures, the pictures of the documentation, as SVG files that follow
// the reader's choice of a light or a dark page. Lengths are in pixels.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/pictures docs/pictures")
		os.Exit(2)
	}
	for name, svg := range pictures() {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(svg), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "pictures:", err)
			os.Exit(1)
		}
	}
}

// pictures returns the text of each file, by file name.
func pictures() map[string]string {
	return map[string]string{
		"ensemble.svg": ensemble(),
		"read.svg":     read(),
		"session.svg":  session(),
	}
}
