// Command figures writes the reports of the measuring scripts: tables in Markdown, pictures, and lists of all figures
// (figures.csv), targets (targets.csv) and curves (curves.csv). It measures nothing. It is a module of its own, so that its drawing libraries are
// not dependencies of Rollcall.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 3 && os.Args[1] == "budget":
		err = writeBudget(os.Stdout, os.Args[2], os.Args[3:])
	case len(os.Args) == 2:
		err = printComparison(os.Stdout, os.Args[1])
	case len(os.Args) == 3:
		err = writeReports(os.Args[1], os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: figures DATA DOCS writes the reports; figures DATA prints the tables of one and three members; "+
			"figures budget REQUESTS-PER-SECOND PROFILE... prints the processor time of a request by stage")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// printComparison prints the tables of the parts that are measured on several sides by turns, from the directory data.
func printComparison(w io.Writer, data string) error {
	k, err := readMeasurements(data)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, k.All(floorParts...))
	return err
}

// writeReports reads the directory data, and writes the pages and performance/ into docs.
func writeReports(data, docs string) error {
	k, err := readMeasurements(data)
	if err != nil {
		return err
	}
	pictures := filepath.Join(docs, "performance")
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"curves.csv": k.curvesCSV(), "figures.csv": k.figuresCSV(), "targets.csv": k.targetsCSV()} {
		if err := os.WriteFile(filepath.Join(pictures, name), text, 0o644); err != nil {
			return err
		}
	}
	for _, p := range curvePictures() {
		newPlot := func(panel *curvePanel) (*plot.Plot, error) { return panel.newPlot(&p, k.curves) }
		if err := writePicture(filepath.Join(pictures, p.file), p.panels, newPlot); err != nil {
			return err
		}
	}
	for _, p := range barPictures() {
		newPlot := func(panel *barPanel) (*plot.Plot, error) { return panel.newPlot(k) }
		if err := writePicture(filepath.Join(pictures, p.file), p.panels, newPlot); err != nil {
			return err
		}
	}
	for _, page := range pages {
		text, err := k.renderPage(page.template)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, page.file), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
