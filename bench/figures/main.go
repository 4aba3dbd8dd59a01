// Command figures writes the reports from what the measuring scripts have recorded: tables in
// Markdown, pictures, and one list of all curves (curves.csv). It measures nothing. It is a module
// of its own, so that its drawing libraries are not dependencies of Rollcall.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: figures DATA DOCS")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// write reads the directory data and writes performance.md, sizing.md, performance/ and the table in
// storage.md into docs.
func write(data, docs string) error {
	k, err := read(data)
	if err != nil {
		return err
	}
	pictures := filepath.Join(docs, "performance")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(pictures, "curves.csv"), k.csv(), 0o644); err != nil {
		return err
	}
	for _, p := range pages() {
		if err := p.draw(pictures, k.curves); err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
	}
	for _, a := range answers() {
		if err := a.draw(pictures, k); err != nil {
			return fmt.Errorf("%s: %w", a.file, err)
		}
	}
	for _, name := range []string{"performance.md", "sizing.md"} {
		text, err := k.fill(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, name), text, 0o644); err != nil {
			return err
		}
	}
	return k.refresh(filepath.Join(docs, "storage.md"))
}
