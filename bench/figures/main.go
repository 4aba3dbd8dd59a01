// Command figures writes the reports of the measuring scripts: tables in Markdown, pictures, and one list of
// all curves (curves.csv). It measures nothing. It is a module of its own, so that its drawing libraries are
// not dependencies of Rollcall.
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
	if err := writeReports(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// writeReports reads the directory data, and writes performance.md, sizing.md, performance/ and the table in
// storage.md into docs.
func writeReports(data, docs string) error {
	k, err := readMeasurements(data)
	if err != nil {
		return err
	}
	pictures := filepath.Join(docs, "performance")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(pictures, "curves.csv"), k.curvesCSV(), 0o644); err != nil {
		return err
	}
	for _, p := range curvePictures() {
		if err := p.writePicture(pictures, k.curves); err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
	}
	for _, a := range barPictures() {
		if err := a.writePicture(pictures, k); err != nil {
			return fmt.Errorf("%s: %w", a.file, err)
		}
	}
	for _, name := range []string{"performance.md", "sizing.md"} {
		text, err := k.renderPage(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, name), text, 0o644); err != nil {
			return err
		}
	}
	return k.refreshStorage(filepath.Join(docs, "storage.md"))
}
